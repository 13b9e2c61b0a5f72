#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::virtual_net {

/// The event that a node sleeps on. The descriptor is made when first asked for; without one
/// nothing here makes a system call. Not thread-safe.
class doorbell {
public:
  doorbell() = default;
  ~doorbell() {
    if (fd_ >= 0) ::close(fd_);
  }
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;

  int fd() {
    if (fd_ >= 0) return fd_;
    fd_ = eventfd(rung_ ? 1 : 0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd_ < 0) throw transport_error(std::string("eventfd failed: ") + std::strerror(errno));
    return fd_;
  }

  void ring() noexcept {
    if (std::exchange(rung_, true) || fd_ < 0) return;
    eventfd_write(fd_, 1);
  }

  void ring_if_armed() noexcept {
    if (armed_) ring();
  }

  void arm() noexcept { armed_ = true; }

  /// Undoes `arm` and `ring`.
  void clear() noexcept {
    armed_ = false;
    if (!std::exchange(rung_, false) || fd_ < 0) return;
    eventfd_t ignored;
    eventfd_read(fd_, &ignored);
  }

private:
  int fd_ = -1;
  bool rung_ = false;
  bool armed_ = false;
};

}  // namespace troupe::transport::virtual_net
