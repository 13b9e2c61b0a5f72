#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace troupe {

/// Whether a node has waited briefly for the network of late, so that to poll is better than to
/// sleep. A few messages at once, as an idle node gets now and then, are no reason for that:
/// several brief waits in a row are, half of which a longer one forgets, and a far longer one all.
/// Used by whoever leads; what two of them note at once may count once.
class spin_policy {
public:
  explicit spin_policy(std::chrono::microseconds brief) noexcept : brief_(brief) {}

  bool are_brief() const noexcept { return count_.load(std::memory_order_relaxed) >= enough; }

  void add(std::chrono::nanoseconds waited) noexcept {
    const auto before = count_.load(std::memory_order_relaxed);
    count_.store(waited < brief_       ? std::min(before + 1, most)
                 : waited < 8 * brief_ ? before / 2
                                       : 0,
                 std::memory_order_relaxed);
  }

private:
  static constexpr unsigned enough = 8;
  static constexpr unsigned most = 16;

  const std::chrono::microseconds brief_;
  std::atomic<unsigned> count_{0};
};

}  // namespace troupe
