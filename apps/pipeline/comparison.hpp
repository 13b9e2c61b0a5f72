#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/pipeline/options.hpp"
#include "troupe/apps/pipeline/record.hpp"

namespace pipeline {

/// Trains the network in this process and with a stage on each other node, in all ways that are
/// asked for, and shows the progress in `line`. Throws troupe::invalid_argument if there is no
/// other node, too few layers for them, or no digits, and troupe::peer_lost if a node is lost.
run_record compare_on_ranks(const troupe::node& node, const options& opts,
                            common::status_line& line);

/// In this process alone.
run_record train_here(const options& opts, common::status_line& line);

}  // namespace pipeline
