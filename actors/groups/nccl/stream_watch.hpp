#pragma once

#include <exception>
#include <functional>
#include <memory>

#include "troupe/actors/groups/backend/backend.hpp"

namespace troupe::groups::nccl {

/// Looks after the operations that one backend has put on streams, on a thread of its own, which
/// sleeps while there are none. Thread-safe.
class stream_watch {
public:
  /// What it asks of its owner, on its own thread. They go, on that thread, when all has ended:
  /// they hold what they use.
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
  /// Does not wait: what is under way goes on, and is looked after until it has ended. Also on the
  /// watch's own thread.
  ~stream_watch();
  stream_watch(const stream_watch&) = delete;
  stream_watch& operator=(const stream_watch&) = delete;

  /// `what` goes on the watch's thread, when all has ended. Before this object goes.
  void leave_behind(std::shared_ptr<const void> what);

  void add(stream_operation what);

  /// Ends all that is under way, and what comes later, with `why`, soon, and calls `abort`. The
  /// first call counts. Returns at once.
  void fail(std::exception_ptr why) noexcept;

  /// Waits until nothing is under way: each operation ends in its time. Not on the watch's own
  /// thread, where it returns at once.
  void wait_until_idle() const;

private:
  struct state;

  const std::shared_ptr<state> state_;
};

}  // namespace troupe::groups::nccl
