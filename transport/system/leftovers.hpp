#pragma once

#include <string>

namespace troupe::transport {

/// Removes UCX's segments of shared memory in `folder` that ended processes of this user have left.
/// UCX unlinks a segment right after it has made it, so a process that is killed in between leaves
/// one. A segment that any process has open or mapped stays, whatever container that runs in.
/// Returns how many were removed; never throws.
unsigned remove_leftovers(const std::string& folder = "/dev/shm") noexcept;

}  // namespace troupe::transport
