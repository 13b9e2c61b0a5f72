#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>

namespace troupe::transport::ucx {

/// How fast this process writes into the shared memory that a peer reads. Where the two run on
/// cores that share a cache, copies are the best way for medium payloads; between sockets they are
/// many times slower, and CMA is better. Which it is can change while they run, so every `probe`th
/// payload is copied all the same. Any thread; exactness does not matter.
class copy_speed {
public:
  /// Below this many bytes per nanosecond CMA is faster, which moves 10 to 24.
  static constexpr double limit = 5;
  static constexpr unsigned probe = 32;
  /// Payloads of fewer bytes are always copied, and say nothing about the speed.
  static constexpr std::size_t smallest = std::size_t{64} << 10;

  /// Shall the next payload be copied?
  bool worthwhile() noexcept {
    return !slow() || skipped_.fetch_add(1, std::memory_order_relaxed) % probe == probe - 1;
  }

  bool slow() const noexcept { return speed() < limit; }

  /// Bytes per nanosecond, over the last few payloads.
  double speed() const noexcept { return speed_.load(std::memory_order_relaxed); }

  /// So many bytes were copied in that time.
  void took(std::size_t bytes, std::chrono::nanoseconds time) noexcept {
    const double now = static_cast<double>(bytes) / static_cast<double>(time.count() + 1);
    const double before = speed();
    // One that was interrupted says little; one that was fast says all.
    speed_.store(now > before ? (now + before) / 2 : (now + 3 * before) / 4,
                 std::memory_order_relaxed);
  }

private:
  std::atomic<double> speed_{2 * limit};
  std::atomic<unsigned> skipped_{0};
};

}  // namespace troupe::transport::ucx
