#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>

#include "troupe/actors/scheduler/lent_thread.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe::groups {

/// Memory that processes share, as `exchange` uses it. Tests put a simulated one in its place.
struct process_memory {
  template <class T>
  using cell = std::atomic<T>;

  /// Orders this thread's stores before its later loads, among threads that all do so.
  static void fence() noexcept {
#if defined(__SANITIZE_THREAD__)
    // The thread sanitizer knows no fences; an atomic instruction is one.
    static std::atomic<unsigned> any{0};
    any.fetch_add(0, std::memory_order_seq_cst);
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }

  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
  }
  static void yield() noexcept { sched_yield(); }
  static clock::time_point now() noexcept { return clock::now(); }

  /// Sleeps while `word` is `expected`, until woken or `until`. Other than futex_wait it is woken
  /// by other processes too. A handler's thread is lent meanwhile.
  static void sleep(cell<std::uint32_t>& word, std::uint32_t expected,
                    clock::time_point until) noexcept {
    const lent_thread lent;
    const auto ns =
        std::max<std::int64_t>(0, std::chrono::nanoseconds(until.time_since_epoch()).count());
    timespec limit{};
    limit.tv_sec = ns / 1'000'000'000;
    limit.tv_nsec = ns % 1'000'000'000;
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET, expected, &limit,
            nullptr, FUTEX_BITSET_MATCH_ANY);
  }
  static void wake(cell<std::uint32_t>& word) noexcept {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX);
  }
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace troupe::groups
