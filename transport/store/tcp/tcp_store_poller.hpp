#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// The events that a server's thread waits for: of sockets, by ids that the server chooses, and
/// `wake`. All but `wake` on one thread.
class tcp_store_poller {
public:
  /// Throws store_error.
  tcp_store_poller();

  /// Watches `fd` from now on; its events carry `id`, any but the largest number. A closed socket
  /// is no longer watched. Throws store_error.
  void add(int fd, std::uint64_t id, std::uint32_t events);

  /// Watches other `events` of `fd`, a mask of EPOLLIN and so on. Throws store_error.
  void change(int fd, std::uint64_t id, std::uint32_t events);

  /// Waits for events for at most `timeout_ms`; -1: without limit. `data.u64` is the id. Empty
  /// after a `wake`, too. Valid until the next call.
  std::span<const epoll_event> wait(int timeout_ms);

  /// Ends the current `wait`, or the next one. Any thread.
  void wake() noexcept;

private:
  void control(int operation, int fd, std::uint64_t id, std::uint32_t events);

  unique_fd epoll_;
  unique_fd signal_;
  std::array<epoll_event, 256> events_;
};

}  // namespace troupe::transport
