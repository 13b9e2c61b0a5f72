#pragma once

#include <atomic>
#include <memory>

// Of the compiler: programs include this header with options of their own.
#if defined(__SANITIZE_THREAD__)
#define TROUPE_SEES_NO_FENCES 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TROUPE_SEES_NO_FENCES 1
#endif
#endif

namespace troupe {

/// Is `one` the only shared_ptr to its object, and was what others did with it done before? Then it
/// may be changed or moved out. `use_count` alone says the first only (its load is relaxed).
template <typename T>
bool is_last_owner(const std::shared_ptr<T>& one) noexcept {
  if (one.use_count() != 1) return false;
#ifdef TROUPE_SEES_NO_FENCES
  // ThreadSanitizer sees no fences. Dropping a copy acquires as well.
  const auto again = one;
#else
  // Pairs with the decrement of each owner that has gone, which releases.
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

}  // namespace troupe

#undef TROUPE_SEES_NO_FENCES
