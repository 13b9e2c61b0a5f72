#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/messages/base/forked.hpp"

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
};

std::string to_string(const socket_address& address);

/// Owns a file descriptor. Processes that are forked meanwhile close theirs as they begin, so that
/// a child which outlives its parent keeps no port and no lock.
class unique_fd {
public:
  unique_fd() = default;
  explicit unique_fd(int fd) : fd_(fd) {
    if (fd_ >= 0) forked::close_in_children(fd_);
  }
  unique_fd(unique_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)), home_(other.home_) {}
  unique_fd& operator=(unique_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(home_, other.home_);
    return *this;
  }
  ~unique_fd() { reset(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void reset() noexcept;

private:
  int fd_ = -1;
  forked::home home_;
};

/// The addresses of `where`; asks the name service for at most until `deadline`, whatever it does.
/// Throws store_error naming the host and why it has none.
std::vector<socket_address> resolve(const endpoint& where, time_point deadline);

/// A connected, non-blocking socket, or, with `error` set to an errno, none.
struct connect_result {
  unique_fd fd;
  int error = 0;
};
connect_result connect_to(const socket_address& address, time_point deadline);

/// A non-blocking socket that listens on `address`, or, with `error` set to an errno, none.
connect_result listen_on(const socket_address& address);

/// The address that `fd` has at this end, or at the other.
socket_address local_address(int fd);
socket_address peer_address(int fd);

/// Waits until `fd` can be read. False when `deadline` has passed.
bool wait_readable(int fd, time_point deadline);

enum class io_result { done, closed, timed_out };

/// Moves all of `bytes`. `closed`: the other side has ended or reset the connection.
io_result read_all(int fd, std::span<std::byte> bytes, time_point deadline);
io_result write_all(int fd, std::span<const std::byte> bytes, time_point deadline);

}  // namespace troupe::transport
