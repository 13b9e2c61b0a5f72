#pragma once

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

/// Something that happens once and can be waited for. Completed by any thread; any number wait.
class completion {
public:
  /// A thread of this node makes it happen, rather than a message that comes: who waits for it
  /// leaves the network to the node's threads. Before anybody else has it.
  void made_here() noexcept { made_here_ = true; }
  bool is_made_here() const noexcept { return made_here_; }

  bool ready() const noexcept { return (word_.load(std::memory_order_acquire) & done) != 0; }

  /// Marks it as happened and wakes whoever sleeps. No system call when nobody does.
  void complete() noexcept {
    auto before = word_.fetch_or(done, std::memory_order_acq_rel);
    if (before & parked) futex_wake(word_);
  }

  /// What `park_unless_woken` compares with: read it before deciding to sleep.
  std::uint32_t pokes() const noexcept {
    return word_.load(std::memory_order_acquire) & ~(done | parked);
  }

  /// Sleeps until it is ready, somebody pokes or the deadline passes; not at all when somebody has
  /// poked since `pokes` was read.
  void park_unless_woken(std::uint32_t pokes, clock::time_point deadline) noexcept {
    auto seen = word_.fetch_or(parked, std::memory_order_acq_rel) | parked;
    if (seen & done || (seen & ~(done | parked)) != pokes) return;
    futex_wait(word_, seen, deadline);
  }

  /// Sleeps until it is ready; false when the deadline came first.
  bool wait(clock::time_point deadline) noexcept {
    while (!ready() && clock::now() < deadline) park_unless_woken(pokes(), deadline);
    return ready();
  }

  /// Wakes the sleepers without completing: there is something to do for them.
  void wake_waiter() noexcept {
    word_.fetch_add(wake_step, std::memory_order_acq_rel);
    futex_wake(word_);
  }

private:
  static constexpr std::uint32_t done = 1;
  static constexpr std::uint32_t parked = 2;
  static constexpr std::uint32_t wake_step = 4;

  std::atomic<std::uint32_t> word_{0};
  bool made_here_ = false;
};

}  // namespace troupe
