#pragma once

#include <atomic>
#include <mutex>

#include "troupe/transport/system/unique_fd.hpp"

namespace troupe {

/// Where a network thread sleeps that leads: in an epoll descriptor above the transport's own. A
/// waiter that has taken the role from it and goes to sleep in the network as well mutes this one,
/// so that what comes wakes the waiter alone. Thread-safe, except for `open`.
class network_sleep {
public:
  /// Watches `event_fd` from now on. Throws std::system_error.
  void open(int event_fd);

  /// Sleeps until something comes, unless it is muted, or `rouse` is called. False: a signal came.
  bool wait();

  /// What comes does not end `wait` any more.
  void mute();

  /// It does again, also if it has come meanwhile.
  void unmute();

  bool muted() const noexcept { return muted_.load(std::memory_order_relaxed); }

  /// Ends the `wait` of a thread that is in it now or comes to it next.
  void rouse() noexcept;

private:
  void watch(bool on);

  int event_fd_ = -1;
  transport::unique_fd epoll_;
  transport::unique_fd rouse_;
  std::mutex mutex_;  // the flag and the kernel's state change together
  std::atomic<bool> muted_{false};
};

}  // namespace troupe
