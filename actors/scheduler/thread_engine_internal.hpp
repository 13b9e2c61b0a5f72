#pragma once

#include <utility>

#include "troupe/actors/scheduler/thread_engine.hpp"
#include "troupe/actors/scheduler/thread_identity.hpp"
#include "troupe/messages/base/spin_pause.hpp"

// What the files of the engine share.
namespace troupe {

/// Decides what a leader does that polls the network and finds nothing. For one thread.
class empty_polls {
public:
  enum class next { poll, yield, sleep };

  explicit empty_polls(cpu_placement& where) noexcept : placement_(where) {}

  void forget() noexcept {
    count_ = 0;
    looked_ = false;
  }

  /// After one more empty poll in a row: to sleep when they have gone on for `spin()`, and to yield
  /// the processor after `yield_after`. Looks at the clock once in sixteen polls; where other
  /// threads want the processor, at each after the first two, and yields at once: the thread that
  /// we wait for may be one of them.
  template <class Spin>
  next one_more(Spin&& spin, std::chrono::microseconds yield_after) {
    spin_pause();
    const bool crowded = placement_.crowded();
    ++count_;
    if (crowded ? count_ < polls_if_crowded : count_ % polls_per_look != 0) return next::poll;
    now_ = clock::now();
    if (!std::exchange(looked_, true)) since_ = now_;
    if (now_ - since_ > spin()) return next::sleep;
    return crowded || now_ - since_ > yield_after ? next::yield : next::poll;
  }

  /// Yields the processor.
  void yield() noexcept { placement_.yield(now_); }

  /// When they began.
  clock::time_point since() const noexcept { return since_; }

  /// When it looked last.
  clock::time_point now() const noexcept { return now_; }

private:
  static constexpr unsigned polls_per_look = 16;
  static constexpr unsigned polls_if_crowded = 3;

  cpu_placement& placement_;
  unsigned count_ = 0;
  bool looked_ = false;
  clock::time_point since_;
  clock::time_point now_ = clock::time_point::min();
};

}  // namespace troupe
