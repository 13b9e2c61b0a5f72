#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "troupe/transport/store/tcp/tcp_store_socket.hpp"

namespace troupe::transport {

/// What a server's thread waits for: sockets, by ids that the server chooses, and `wake`. Belongs
/// to one thread, but for `wake`.
class tcp_store_poller {
public:
  /// Throws store_error.
  tcp_store_poller();

  /// Watches `fd` from now on; what happens to it comes as `id`, any but the largest. A socket that
  /// is closed is no longer watched. Throws store_error.
  void add(int fd, std::uint64_t id, std::uint32_t events);

  /// Watches other `events` of `fd`, a mask of EPOLLIN and so on. Throws store_error.
  void change(int fd, std::uint64_t id, std::uint32_t events);

  /// What has happened, after at most `timeout_ms`; -1 waits for ever. `data.u64` is the id. Empty
  /// after a `wake`, too. Valid until the next call.
  std::span<const epoll_event> wait(int timeout_ms);

  /// Ends the `wait` that runs, or the next one. Any thread.
  void wake() noexcept;

private:
  void control(int operation, int fd, std::uint64_t id, std::uint32_t events);

  unique_fd epoll_;
  unique_fd signal_;
  std::array<epoll_event, 256> events_;
};

}  // namespace troupe::transport
