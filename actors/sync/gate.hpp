#pragma once

#include <sched.h>

#include <atomic>

#include "troupe/messages/base/forked.hpp"

namespace troupe {

/// Admits threads until it is closed; then `wait_until_empty` waits until those inside have left
/// (as Seastar's gate). Two atomic operations a pass. In a forked process it is closed: what it
/// guards belongs to the parent.
class gate {
public:
  /// A stay inside; false if the gate is closed.
  class pass {
  public:
    explicit pass(gate& through) noexcept : gate_(through) {
      // Enters before it looks; `close` is followed by a look at `inside_`. In the total order of
      // these operations either the pass sees the gate closed, or the closer sees the pass.
      gate_.inside_.fetch_add(1, std::memory_order_seq_cst);
      open_ = !gate_.closed_.load(std::memory_order_seq_cst) && !forked::from_nodes();
    }
    // Pairs with `empty`: what was done inside comes before what the closer does next.
    ~pass() { gate_.inside_.fetch_sub(1, std::memory_order_release); }
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;
    explicit operator bool() const noexcept { return open_; }

  private:
    gate& gate_;
    bool open_;
  };

  // A look alone: only a pass is admitted or refused for certain.
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  /// No thread is admitted from now on.
  void close() noexcept { closed_.store(true, std::memory_order_seq_cst); }

  bool empty() const noexcept { return inside_.load(std::memory_order_seq_cst) == 0; }

  /// Waits until those inside have left.
  void wait_until_empty() const noexcept {
    while (!empty()) sched_yield();
  }

private:
  std::atomic<int> inside_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace troupe
