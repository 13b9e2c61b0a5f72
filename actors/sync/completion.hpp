#pragma once

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

/// An event that happens once and can be waited for (a latch). Any thread completes it; any number
/// of threads wait. One atomic word: bit 0 is set when it has happened, bit 1 once a thread has
/// slept, and the bits above count the wake-ups by `wake_waiter`.
class completion {
public:
  /// A thread of this node makes it happen, not a message: waiters leave the network to the node's
  /// threads. Call it before others have the completion.
  void made_here() noexcept { made_here_ = true; }
  bool is_made_here() const noexcept { return made_here_; }

  bool ready() const noexcept { return (word_.load(std::memory_order_acquire) & done) != 0; }

  /// Marks it as happened and wakes the sleepers. No system call if no thread has slept.
  void complete() noexcept {
    auto before = word_.fetch_or(done, std::memory_order_acq_rel);
    if (before & parked) futex_wake(word_);
  }

  /// The wake-ups so far, for `park_unless_woken`: read them before deciding to sleep.
  std::uint32_t wakes() const noexcept {
    return word_.load(std::memory_order_acquire) & ~(done | parked);
  }

  /// Sleeps until it is ready, `wake_waiter` is called or the deadline passes; not at all if
  /// `wake_waiter` has been called since `wakes` was read. May return early for no reason.
  void park_unless_woken(std::uint32_t wakes, clock::time_point deadline) noexcept {
    auto seen = word_.fetch_or(parked, std::memory_order_acq_rel) | parked;
    if (seen & done || (seen & ~(done | parked)) != wakes) return;
    // The kernel compares the word with `seen` again: no wake-up is lost in between.
    futex_wait(word_, seen, deadline);
  }

  /// Sleeps until it is ready; false if the deadline came first.
  bool wait(clock::time_point deadline) noexcept {
    while (!ready() && clock::now() < deadline) park_unless_woken(wakes(), deadline);
    return ready();
  }

  /// Wakes the sleepers without completing: there is something else for them to do.
  void wake_waiter() noexcept {
    word_.fetch_add(wake_step, std::memory_order_acq_rel);
    futex_wake(word_);
  }

private:
  static constexpr std::uint32_t done = 1;
  static constexpr std::uint32_t parked = 2;
  static constexpr std::uint32_t wake_step = 4;

  // `complete` and `wake_waiter` release to `ready` and `wakes`: a thread that sees the event, or a
  // wake-up, sees what came before it. The acquire halves, and `park_unless_woken`, have no pair.
  std::atomic<std::uint32_t> word_{0};
  bool made_here_ = false;
};

}  // namespace troupe
