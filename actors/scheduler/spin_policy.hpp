#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

namespace troupe {

/// Decides how long a leader polls before it sleeps, from how long recent waits for the network
/// took: adaptive spinning, like glibc's adaptive mutexes (PTHREAD_MUTEX_ADAPTIVE_NP); that recent
/// waits predict the next one is the idea of Karlin, Li, Manasse and Owicki, "Empirical studies of
/// competitive spinning for a shared-memory multiprocessor", SOSP 1991. Several brief waits in a
/// row are a reason to poll for longer; a few messages at once, as an idle node gets now and then,
/// are not. A longer wait halves the count, a far longer one resets it. Used by any thread that
/// leads; of two waits that are added at the same moment one may be lost.
class spin_policy {
public:
  /// Waits shorter than `brief` are worth polling for.
  explicit spin_policy(std::chrono::microseconds brief) noexcept : brief_(brief) {}

  /// Have recent waits been brief, so that polling is better than sleeping?
  bool waits_are_brief() const noexcept { return count_.load(std::memory_order_relaxed) >= enough; }

  void add_wait(std::chrono::nanoseconds waited) noexcept {
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
