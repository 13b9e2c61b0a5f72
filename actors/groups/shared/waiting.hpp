#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <span>

namespace troupe::groups {

/// How a wait has ended.
enum class wait_result : std::uint8_t { arrived, aborted, timed_out };

/// Cores as a mask, by number.
using core_set = std::array<std::uint64_t, 16>;

/// Those that the calling thread may run on.
core_set usable_cores() noexcept;
/// How many are in any of them; at least 1.
int count_cores(std::span<const core_set> of_ranks) noexcept;

/// How a rank waits for others. Measured on two cores: a barrier of two ranks takes 0.1 us by
/// spinning and 40 by sleeping; one of four ranks 3 us by yielding at once, 50 by spinning first.
struct waiting {
  /// Between two looks: yields the core, where ranks outnumber cores, or only pauses.
  bool yields = false;
  /// Looks between two readings of the clock.
  int looks = 256;
  /// Sleeps when nothing has come for so long.
  std::chrono::microseconds awake{50};

  /// For `ranks` ranks of one host that may run on `cores` cores in all.
  static waiting for_ranks(int ranks, int cores) noexcept;
};

}  // namespace troupe::groups
