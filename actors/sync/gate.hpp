#pragma once

#include <sched.h>

#include <atomic>

#include "troupe/messages/base/forked.hpp"

namespace troupe {

/// Lets threads in until it is closed; closing waits until all have left. Two atomic operations a
/// pass. In a forked process it is closed: what is behind it belongs to the parent.
class gate {
public:
  /// A stay inside; false when the gate is closed.
  class pass {
  public:
    explicit pass(gate& through) noexcept : gate_(through) {
      gate_.inside_.fetch_add(1, std::memory_order_seq_cst);
      open_ = !gate_.closed_.load(std::memory_order_seq_cst) && !forked::from_nodes();
    }
    ~pass() { gate_.inside_.fetch_sub(1, std::memory_order_release); }
    pass(const pass&) = delete;
    pass& operator=(const pass&) = delete;
    explicit operator bool() const noexcept { return open_; }

  private:
    gate& gate_;
    bool open_;
  };

  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }

  /// Nobody enters from now on.
  void close() noexcept { closed_.store(true, std::memory_order_seq_cst); }

  bool empty() const noexcept { return inside_.load(std::memory_order_acquire) == 0; }

  /// Waits until those inside have left.
  void wait_until_empty() const noexcept {
    while (!empty()) sched_yield();
  }

private:
  std::atomic<int> inside_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace troupe
