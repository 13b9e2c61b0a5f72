#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::transport::ucx {

/// How much memory a control group may have, and who is over it is killed. Pages in /dev/shm count
/// for the group of the process that first writes to them.
struct memory_limit {
  std::string file;         ///< where it stands
  std::uint64_t whole = 0;  ///< bytes
  std::uint64_t left = 0;   ///< not in use, or by cached files, which give way
};

/// Where the kernel shows the control groups.
struct control_groups {
  std::string own = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// The limit that leaves the least, of this process's group and those that contain it, by version 2
/// or version 1 of control groups. None: there is no limit, or it cannot be seen.
std::optional<memory_limit> find_memory_limit(const control_groups& where = {});

}  // namespace troupe::transport::ucx
