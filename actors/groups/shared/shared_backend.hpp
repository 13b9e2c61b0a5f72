#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups {

/// A backend for groups whose ranks share a host: collectives in shared memory, on tensors of any
/// dtype. Tensors in the arenas of the ranks are read and written by the others, without a copy;
/// others go through shared memory in pieces. It has no send and no recv: those that wait in one
/// would keep others from theirs.
///
/// Null, and the reason, on all ranks alike where they cannot share memory. All ranks call it at
/// the same time, as a backend_factory. Throws what member_exchange::all_gather throws, and
/// invalid_argument for wrong rules: the variable TROUPE_COLLECTIVES and the option "collectives"
/// of rank 0 change the ways that operations take (collective_ways::apply).
std::unique_ptr<backend> make_shared_backend(const backend_request& request, std::string& why_not);

}  // namespace troupe::groups
