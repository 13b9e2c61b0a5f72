#pragma once

#include <string>
#include <vector>

#include "troupe/apps/trace/comparison.hpp"

namespace troupe::trace {

/// For people.
std::string to_text(const std::vector<comparison>& groups);

/// One object: {"in_step": false, "groups": [{"group": ..., "in_step": false, "size": 4,
/// "completed_by_all": 41, "positions": [...], "missing": [...], "mismatches": [...], "waits":
/// [...], "stragglers": [...]}, ...]}.
std::string to_json(const std::vector<comparison>& groups);

bool all_in_step(const std::vector<comparison>& groups);

}  // namespace troupe::trace
