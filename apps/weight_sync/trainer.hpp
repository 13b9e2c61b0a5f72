#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/weight_sync/options.hpp"
#include "troupe/apps/weight_sync/record.hpp"

namespace weight_sync {

/// Trains on this rank, twice, while all other ranks sample: they pull the weights, and they are
/// sent them. Then measures how long weights take to samplers that only wait. Throws what calls
/// throw, and troupe::peer_lost if a sampler does not answer.
run_record train(const troupe::node& node, const options& opts, common::status_line& line);

}  // namespace weight_sync
