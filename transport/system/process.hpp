#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::transport {

/// Identifies a process and its host; decides whether two nodes can share memory and watch each
/// other.
struct process_identity {
  std::array<std::byte, 16> host{};  ///< a hash of the running kernel's boot id and the host's name
  std::uint64_t net_namespace = 0;   ///< inodes of the namespaces
  std::uint64_t pid_namespace = 0;
  std::uint64_t start_time = 0;  ///< clock ticks since boot
  std::uint32_t pid = 0;
  std::uint32_t reserved = 0;

  friend bool operator==(const process_identity&, const process_identity&) = default;
};
static_assert(sizeof(process_identity) == 48);

/// The calling process. Throws transport_error when /proc cannot be read.
process_identity this_process();

/// Empty when the two can share memory, wake each other and watch each other; otherwise the reason
/// why not.
std::string apart(const process_identity& a, const process_identity& b);

/// A descriptor that becomes readable when `who` ends; `who` is on this host. -1 when it cannot be
/// watched (`why` says so). Throws peer_lost when it has ended already, transport_error when this
/// process may open no more descriptors.
int watch_process(const process_identity& who, std::string& why);

}  // namespace troupe::transport
