#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups::nccl {

/// Looks after the operations that one backend has put on streams, on a thread of its own, which
/// sleeps while there are none. Thread-safe.
class stream_watch {
public:
  /// What it asks of its owner, on its own thread.
  struct owner {
    /// An error that was noticed without an operation's end; nullptr: none. Often: brief.
    std::function<std::exception_ptr()> look;
    /// Why an operation that is under way will never end, or has taken too long; nullptr: it may.
    /// Often: brief.
    std::function<std::exception_ptr(const stream_operation&)> problem;
    /// Frees what is stuck on the devices. After a failure; may be called again, may take long.
    std::function<void()> abort;
  };

  explicit stream_watch(owner of);
  /// Waits for its thread. What is under way ends as by `fail`.
  ~stream_watch();
  stream_watch(const stream_watch&) = delete;
  stream_watch& operator=(const stream_watch&) = delete;

  void add(stream_operation what);

  /// Ends all that is under way, and what comes later, with `why`, soon, and calls `abort`. The
  /// first call counts. Returns at once.
  void fail(std::exception_ptr why) noexcept;

  bool is_idle() const;

private:
  void work();
  void end_all(const std::exception_ptr& why) noexcept;

  const owner owner_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<stream_operation> pending_;  // of several devices; each device's are in order
  std::exception_ptr failure_;
  bool closed_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace troupe::groups::nccl
