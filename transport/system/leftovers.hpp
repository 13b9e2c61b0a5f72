#pragma once

#include <string>

namespace troupe::transport {

/// Removes UCX's segments of shared memory in `folder` that this user's processes have left there.
/// UCX takes a segment's name away as soon as it has made it, so a process that is killed in
/// between leaves one. What any process has open or mapped stays, whatever container it runs in.
/// Returns how many were removed; never throws.
unsigned remove_leftovers(const std::string& folder = "/dev/shm") noexcept;

}  // namespace troupe::transport
