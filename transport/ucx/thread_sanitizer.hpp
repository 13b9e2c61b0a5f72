#pragma once

#include "troupe/transport/transport.hpp"

#ifdef TROUPE_SANITIZE_thread
#include <array>

extern "C" void __tsan_acquire(void* at);
extern "C" void __tsan_release(void* at);
#endif

namespace troupe::transport::ucx {

/// For ThreadSanitizer, which does not see what goes through UCX's shared memory: what a thread has
/// done before it sends comes before what is done after the receipt. A receipt counts for all that
/// this pair of ranks has sent so far, in any job of the process: races among these stay unseen.
/// Nothing in other builds.
#ifdef TROUPE_SANITIZE_thread

inline void* order_between(rank_t from, rank_t to) {
  static std::array<char, 64 * 64> pairs;
  return &pairs[from % 64 * 64 + to % 64];
}
inline void before_send(rank_t from, rank_t to) { __tsan_release(order_between(from, to)); }
inline void after_receipt(rank_t from, rank_t to) { __tsan_acquire(order_between(from, to)); }

#else

inline void before_send(rank_t, rank_t) {}
inline void after_receipt(rank_t, rank_t) {}

#endif

}  // namespace troupe::transport::ucx
