#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

using time_point = std::chrono::steady_clock::time_point;

/// A host's name or address, and a port.
struct endpoint {
  std::string host;
  std::uint16_t port = 0;

  friend bool operator==(const endpoint&, const endpoint&) = default;
};

/// "host:port", "[v6]:port".
std::string to_string(const endpoint& where);

/// A resolved address.
struct socket_address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_loopback() const;
  bool is_any() const;
  /// The same address, whatever the ports.
  bool has_host_of(const socket_address& other) const;
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
};

std::string to_string(const socket_address& address);

/// The addresses of `where`. Returns by `deadline`, however long the name service takes. Throws
/// store_error naming the host and why it has none.
std::vector<socket_address> resolve(const endpoint& where, time_point deadline);

/// How the end of the other host is noticed: a connection that is silent for `idle` is probed
/// `count` times, `interval` apart, and what is not acknowledged for `unacknowledged` ends it.
struct tcp_probes {
  std::chrono::seconds idle;
  std::chrono::seconds interval;
  int count;
  std::chrono::milliseconds unacknowledged;
};

/// Sets them, and that small messages are not held back (TCP_NODELAY).
void set_tcp_options(int fd, const tcp_probes& how) noexcept;

/// A connected, non-blocking socket, or, with `error` set to an errno, none.
struct connect_result {
  unique_fd fd;
  int error = 0;
};
connect_result connect_to(const socket_address& address, time_point deadline);

/// A non-blocking socket that listens on `address`, or, with `error` set to an errno, none.
connect_result listen_on(const socket_address& address);

/// The addresses of the two ends of `fd`.
socket_address local_address(int fd);
socket_address peer_address(int fd);

/// Waits until `fd` can be read. False when `deadline` has passed.
bool wait_readable(int fd, time_point deadline);

enum class io_result { done, closed, timed_out };

/// Moves all of `bytes`. `closed`: the other side has ended or reset the connection.
io_result read_all(int fd, std::span<std::byte> bytes, time_point deadline);
io_result write_all(int fd, std::span<const std::byte> bytes, time_point deadline);

}  // namespace troupe::transport
