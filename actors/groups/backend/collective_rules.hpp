#pragma once

#include <string>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups {

/// What the user wants of the ways of a group on this rank: the variable TROUPE_COLLECTIVES and
/// then the option "collectives". Rank 0's wishes count, so that all have the same.
std::string rules_of(const backend_request& request);

}  // namespace troupe::groups
