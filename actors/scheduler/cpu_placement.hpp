#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

/// Whether other threads want the processor on which a node polls. If they do, the node yields at
/// each poll, and moves to another processor if that goes on. If they compute there, it sleeps
/// earlier: a polling thread among computing ones gets its turn too late. Some kernels put threads
/// that wake each other onto one processor while others are idle, and leave polling threads there,
/// where each step of a conversation costs a context switch. Thread-safe; used by any thread that
/// polls.
class cpu_placement {
public:
  /// Did another thread run at the last yield?
  bool crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }

  /// And for longer than a thread needs that polls too?
  bool taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  /// Yields the processor, at `now`, and finds out whether another thread ran.
  void yield(clock::time_point now) noexcept;

private:
  void move_away(clock::time_point now) noexcept;

  std::atomic<bool> crowded_{false};
  std::atomic<bool> taken_{false};
  std::atomic<unsigned> in_a_row_{0};  // yields to others
  std::atomic<clock::rep> next_move_{0};
  std::atomic<clock::rep> pause_{0};  // between moves
};

}  // namespace troupe
