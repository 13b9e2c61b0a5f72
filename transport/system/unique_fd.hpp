#pragma once

#include <utility>

#include "troupe/messages/base/forked.hpp"

namespace troupe::transport {

/// Owns a file descriptor. Processes that are forked meanwhile close their copy as they start, so
/// that a child that outlives its parent keeps no port and no lock.
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

}  // namespace troupe::transport
