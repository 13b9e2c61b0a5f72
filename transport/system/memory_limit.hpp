#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::transport {

/// The memory that a control group may use; a process beyond it is killed. Pages in /dev/shm count
/// for the group of the process that first writes to them.
struct memory_limit {
  std::string file;         ///< the file that states it
  std::uint64_t whole = 0;  ///< bytes
  std::uint64_t left = 0;   ///< not in use, or in use by cached files, which are evicted
};

/// Where the kernel shows the control groups.
struct control_groups {
  std::string own = "/proc/self/cgroup";
  std::string root = "/sys/fs/cgroup";
};

/// The limit with the least memory left, of this process's group and those that contain it, by
/// version 2 or version 1 of control groups. None: there is no limit, or it cannot be read.
std::optional<memory_limit> find_memory_limit(const control_groups& where = {});

}  // namespace troupe::transport
