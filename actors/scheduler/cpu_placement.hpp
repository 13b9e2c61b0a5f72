#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "troupe/actors/sync/futex.hpp"

namespace troupe {

/// What a node knows of the processor on which it polls: do others want it? Then it yields at each
/// poll, and moves away if that goes on. If they compute there it sleeps earlier: who polls among
/// them gets its turn too late. Some kernels pack threads onto one processor while others are idle,
/// when they wake each other; polling ones they leave there, where each step of a conversation
/// costs a switch. Thread-safe; used by whoever polls.
class cpu_placement {
public:
  /// As the last yield has found.
  bool crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }

  /// And for longer than those need who poll as well.
  bool taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  /// Lets others use it, at `now`, and sees whether any did.
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
