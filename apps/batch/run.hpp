#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/batch/comparison.hpp"
#include "troupe/apps/batch/options.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace batch {

/// Serves trainers on all other nodes, batched and one by one, and shows the progress in `line`.
/// Throws troupe::invalid_argument if there is no other node, and troupe::error if no trainer has
/// finished.
comparison compare_servers(const troupe::node& node, const options& opts,
                           common::status_line& line);

/// The same for observers.
comparison compare_agents(const troupe::node& node, const options& opts, common::status_line& line);

}  // namespace batch
