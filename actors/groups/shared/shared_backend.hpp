#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups {

/// A backend for groups whose ranks share a host: collectives in shared memory, on tensors of any
/// dtype. Tensors in the arenas of the ranks are read and written by the others, without a copy;
/// others go through shared memory in pieces. Sends and receives are not its own: those that take
/// part go through `messages`, if it is given.
///
/// Null, and the reason, on all ranks alike where they cannot share memory. All ranks call it at
/// the same time, as a backend_factory. Throws what member_exchange::all_gather throws, and
/// invalid_argument for wrong rules: the variable TROUPE_COLLECTIVES and the option "collectives"
/// of rank 0 change the ways that operations take (collective_ways::apply).
std::unique_ptr<backend> make_shared_backend(const backend_request& request, std::string& why_not,
                                             std::unique_ptr<backend> messages = nullptr);

}  // namespace troupe::groups
