#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

namespace troupe::transport::ucx {

/// Measures how fast this process writes into the shared memory that a peer reads. Where the two
/// run on cores that share a cache, copies are the fastest way for medium payloads; between sockets
/// they are many times slower, and CMA is faster. Which applies can change at run time, so every
/// `probe`th payload is copied all the same. Any thread; approximate.
class copy_speed {
public:
  /// Below this many bytes per nanosecond CMA is faster, which reaches 10 to 24.
  static constexpr double limit = 5;
  static constexpr unsigned probe = 32;
  /// Payloads of fewer bytes are always copied and not measured.
  static constexpr std::size_t smallest = std::size_t{64} << 10;

  /// Whether the next payload should be copied.
  bool worthwhile() noexcept {
    return !slow() || skipped_.fetch_add(1, std::memory_order_relaxed) % probe == probe - 1;
  }

  bool slow() const noexcept { return speed() < limit; }

  /// Bytes per nanosecond, over the last few payloads.
  double speed() const noexcept { return speed_.load(std::memory_order_relaxed); }

  /// Records a copy of `bytes` bytes that took `time`.
  void took(std::size_t bytes, std::chrono::nanoseconds time) noexcept {
    const double now = static_cast<double>(bytes) / static_cast<double>(time.count() + 1);
    const double before = speed();
    // A slow copy may have been interrupted, so it counts less than a fast one.
    speed_.store(now > before ? (now + before) / 2 : (now + 3 * before) / 4,
                 std::memory_order_relaxed);
  }

private:
  std::atomic<double> speed_{2 * limit};
  std::atomic<unsigned> skipped_{0};
};

}  // namespace troupe::transport::ucx
