#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace troupe::transport {

struct arena_options {
  /// Most bytes of memory held. 0: three quarters of the machine's memory, or of the control
  /// group's limit if that is less.
  std::size_t limit = 0;
  /// Smaller allocations are of private memory: small_blocks in the arena that is installed,
  /// otherwise libtorch's default CPU allocator.
  std::size_t smallest = std::size_t{16} << 10;
  bool huge_pages = true;
  /// Memory that has been unused for so long, and up to a quarter longer, returns to the system.
  std::chrono::milliseconds give_back_after{10'000};
  /// After growing, an eighth of what is held is made ready for later, but at most so much.
  std::size_t ahead = std::size_t{32} << 20;
  /// Whether a thread does the two above; otherwise `tidy` is called by hand.
  bool housekeeping = true;
};

struct arena_counters {
  std::size_t held = 0;          ///< bytes of chunks in use, backed but for parts of the first four
  std::size_t in_use = 0;        ///< bytes of blocks that callers have
  std::size_t peak_in_use = 0;   ///< the most of that, or more: counts what caches have
  std::size_t cached = 0;        ///< bytes in the caches of threads
  std::uint64_t from_cache = 0;  ///< blocks taken from caches
  std::uint64_t from_heap = 0;   ///< blocks taken from the heap, by callers or for caches
  std::uint64_t fallbacks = 0;   ///< allocations left to the default allocator for want of memory
  std::uint64_t backed = 0;      ///< bytes that came from the system, all in all
  std::uint64_t given_back = 0;  ///< bytes that returned to the system, all in all
  std::size_t small_held = 0;    ///< bytes of private memory, besides, for smaller allocations
};

}  // namespace troupe::transport
