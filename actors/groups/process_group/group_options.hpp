#pragma once

#include <chrono>
#include <map>
#include <string>

namespace troupe {

/// How a process group is made. The members name the same, except where it says otherwise.
struct group_options {
  /// The group's name, which no other group of the job may have, not even one that is over. Empty:
  /// one made of the parent's name, the ranks, and how many groups of these ranks were made before.
  std::string name{};
  std::string description{};  ///< for people
  /// How long an operation may take. 0: as long as the parent's; 30 minutes for the world.
  std::chrono::milliseconds timeout{0};
  /// "troupe", which copies tensors of devices to the host, or a backend for each type of device:
  /// "cpu:troupe,cuda:nccl". Empty: the parent's.
  std::string backend{};
  /// For the backend's factory.
  std::map<std::string, std::string> backend_options{};
  /// Only members call new_group, and a non-member that does gets no group without a warning. There
  /// is no other difference: members never wait for others.
  bool use_local_synchronization = false;
  /// Where the flight recorder is written when an operation fails, and the directory is there. Need
  /// not be the same. Empty: TROUPE_TRACE_DIR; nowhere if that is not set.
  std::string trace_directory{};
  /// The device that this rank uses, "cuda:1": a backend that needs connections for it makes them
  /// with the group, and not for the first operation. Of all ranks or none; need not be the same.
  std::string device{};

  friend bool operator==(const group_options&, const group_options&) = default;
};

/// The timeout of the world, and of groups that inherit it.
inline constexpr std::chrono::milliseconds default_group_timeout = std::chrono::minutes(30);

}  // namespace troupe
