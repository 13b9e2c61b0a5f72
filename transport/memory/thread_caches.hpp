#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "troupe/transport/memory/backed_heap.hpp"

namespace troupe::transport {

/// Free blocks of classes, kept by each thread for its next allocations: no lock that another
/// thread holds, no system call. A thread's blocks go back to the heap when it ends. There is at
/// most one object in a process, and it is never destroyed.
class thread_caches {
public:
  explicit thread_caches(backed_heap& heap) noexcept : heap_(heap) {}
  thread_caches(const thread_caches&) = delete;
  thread_caches& operator=(const thread_caches&) = delete;

  /// A block of this class; null where the heap has none either. Hot path.
  std::byte* take(unsigned size_class) noexcept;
  /// Hot path.
  void put(std::byte* block, unsigned size_class) noexcept;

  /// Returns this thread's blocks to the heap. False: it had none.
  bool empty_own() noexcept;

  /// Empties the caches that their threads have not used in the last `rounds` calls. Returns
  /// whether any blocks are left.
  bool empty_idle(page_heap::round rounds) noexcept;

  struct counters {
    std::size_t bytes = 0;    ///< in the caches
    std::uint64_t taken = 0;  ///< blocks
  };
  counters count() const noexcept;

private:
  struct cache;
  struct leaving;

  static thread_local constinit cache* own_;
  static thread_local constinit bool ended_;

  cache* make_own() noexcept;
  void retire(cache* ending) noexcept;
  std::byte* refill(cache& to, unsigned size_class) noexcept;
  void give_half(cache& from, unsigned size_class) noexcept;
  void make_less(cache& from, unsigned size_class) noexcept;
  void give_others(cache& from, unsigned size_class) noexcept;

  backed_heap& heap_;
  mutable std::mutex mutex_;  // of the list; not held on the hot path
  cache* first_ = nullptr;
  std::uint64_t taken_before_ = 0;  // by threads that have ended
};

}  // namespace troupe::transport
