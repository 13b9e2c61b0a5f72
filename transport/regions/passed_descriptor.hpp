#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/regions/region_address.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// Sends `packet` and a duplicate of the descriptor `passed`, without waiting. False, with errno
/// set, when it was not sent.
bool send_descriptor(int fd, std::span<const std::byte> packet, int passed) noexcept;

/// A packet and the descriptors that came with it.
struct received_packet {
  /// As channel_socket::receive returns it; `error` is the errno of -1.
  std::ptrdiff_t length = -1;
  int error = 0;
  std::vector<unique_fd> descriptors;
  /// There were more that were closed unseen: too many of them, or this process has no number left.
  bool cut_short = false;
};

/// Without waiting. All descriptors that came are owned by the result.
received_packet receive_descriptors(int fd, std::span<std::byte> room);

/// Empty when `fd` is memory of `size` bytes that can be mapped without risk: a memory file
/// (memfd), open for reading only, or for both where `access` is to write, that can never shrink
/// under who uses it (an access beyond its end would be a SIGBUS). Otherwise the reason why not.
std::string not_shared_memory(int fd, std::uint64_t size, region_access access);

}  // namespace troupe::transport
