#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/batch/comparison.hpp"
#include "troupe/apps/batch/options.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace batch {

/// Serves trainers on all other nodes, batched and one by one, and tells of it in `line`. Throws
/// troupe::invalid_argument when there is no other node, and troupe::error when nobody has come to
/// the end.
comparison compare_servers(const troupe::node& node, const options& opts,
                           common::status_line& line);

/// The same of observers.
comparison compare_agents(const troupe::node& node, const options& opts, common::status_line& line);

}  // namespace batch
