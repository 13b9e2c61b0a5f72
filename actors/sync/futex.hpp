#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

namespace troupe {

namespace detail {

/// The time of the simulation that the calling thread belongs to; nullptr: it belongs to none.
inline constinit thread_local const std::chrono::steady_clock::time_point* virtual_now = nullptr;

}  // namespace detail

/// The steady clock; in a simulation, its own time.
struct clock {
  using rep = std::chrono::steady_clock::rep;
  using period = std::chrono::steady_clock::period;
  using duration = std::chrono::steady_clock::duration;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    return detail::virtual_now ? *detail::virtual_now : std::chrono::steady_clock::now();
  }

  /// The time now, or up to one tick of the system (at most 10 ms) ago: for limits in milliseconds,
  /// at a fraction of the cost.
  static time_point recently() noexcept {
    if (detail::virtual_now) return *detail::virtual_now;
    timespec tick{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
    return time_point(std::chrono::seconds(tick.tv_sec) + std::chrono::nanoseconds(tick.tv_nsec));
  }
};

/// The deadline of a wait without one.
inline constexpr auto never = clock::time_point::max();

/// The time `limit` from now; `never` if that is too far away to be represented.
inline clock::time_point deadline_after(std::chrono::nanoseconds limit) noexcept {
  const auto now = clock::now();
  return limit < clock::time_point::max() - now ? now + limit : clock::time_point::max();
}
inline clock::time_point deadline_after(std::chrono::milliseconds limit) noexcept {
  constexpr auto most =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::nanoseconds::max());
  return limit < most ? deadline_after(std::chrono::nanoseconds(limit)) : clock::time_point::max();
}

/// Sleeps while `word` is `expected`, until woken or `deadline` has passed (`never`: for ever). May
/// return early for no reason.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                       clock::time_point deadline = clock::time_point::max()) noexcept {
  timespec until{};
  timespec* limit = nullptr;
  if (deadline != clock::time_point::max()) {
    auto ns = std::chrono::nanoseconds(deadline.time_since_epoch()).count();
    until.tv_sec = ns / 1'000'000'000;
    until.tv_nsec = ns % 1'000'000'000;
    limit = &until;
  }
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected,
          limit, nullptr, FUTEX_BITSET_MATCH_ANY);
}

/// Wakes up to so many threads that sleep on `word`.
inline void futex_wake(std::atomic<std::uint32_t>& word, int threads = INT_MAX) noexcept {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads);
}

}  // namespace troupe
