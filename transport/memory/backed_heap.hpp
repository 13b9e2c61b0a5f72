#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "troupe/transport/memory/arena_memory.hpp"
#include "troupe/transport/memory/gradual_backing.hpp"
#include "troupe/transport/memory/page_heap.hpp"

namespace troupe::transport {

/// Blocks of an arena's memory: a page heap, and backing what it lacks. One lock, which nobody
/// holds while the system works for it. Thread-safe.
class backed_heap {
public:
  struct counters {
    std::size_t held = 0;    ///< bytes of chunks that are backed, perhaps by pieces, or just being
    std::size_t in_use = 0;  ///< bytes of the blocks taken
    std::size_t peak_in_use = 0;
    std::uint64_t given_back = 0;  ///< bytes that went back to the system, all in all
    std::uint64_t backed = 0;      ///< bytes that came from the system, all in all
    std::uint64_t taken = 0;       ///< blocks
  };

  /// `memory` outlives it. At most `limit` bytes are held. Throws std::bad_alloc.
  backed_heap(arena_memory& memory, std::size_t limit);

  /// A block of a class or, for 0, of so many bytes; null past the limit, where the reserve has no
  /// room, or where the system has no memory.
  std::byte* take(unsigned size_class) noexcept;
  std::byte* take_large(std::size_t bytes) noexcept;

  /// Up to `most` blocks of a class from backed memory. Returns how many.
  std::size_t take_backed(unsigned size_class, std::byte** out, std::size_t most) noexcept;

  void put(std::byte* block) noexcept;
  /// What has lain unused for `age` rounds already.
  void put_all(std::byte* const* blocks, std::size_t count, page_heap::round age = 0) noexcept;

  /// The class of a block that the caller owns; 0: it has none. Hot path: one load.
  unsigned class_at(const std::byte* block) const noexcept {
    return heap_.label_at(granule_of(block));
  }

  /// Time passes: unused memory ages by a round.
  void age() noexcept;
  /// Returns chunks to the system that have been unused for more than so many rounds.
  void give_back_unused(page_heap::round rounds) noexcept;
  /// Whether a chunk is unused.
  bool has_unused() const noexcept;
  /// Backs memory ahead of its use until so much is free.
  void back_ahead(std::size_t bytes) noexcept;

  /// Whether memory was backed for a block since the last call that returned true. Hot path: one
  /// load.
  bool has_grown() noexcept {
    return grown_.load(std::memory_order_relaxed) && grown_.exchange(false);
  }

  counters count() const noexcept;
  std::size_t limit() const noexcept { return limit_; }

private:
  std::byte* take(std::uint32_t granules, std::uint32_t alignment, page_heap::label name) noexcept;
  granule_span grow(std::unique_lock<std::mutex>& lock, std::uint32_t granules,
                    std::uint32_t alignment, page_heap::label name) noexcept;
  bool make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes) noexcept;
  bool return_to_system(std::unique_lock<std::mutex>& lock, granule_span span) noexcept;
  void count_taken(granule_span block) noexcept;
  std::byte* hand_out(granule_span block) noexcept;

  std::byte* at(std::uint32_t granule) const noexcept {
    return memory_.base() + granule * arena_granule;
  }
  std::uint32_t granule_of(const std::byte* block) const noexcept {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(block - memory_.base()) /
                                      arena_granule);
  }

  arena_memory& memory_;
  gradual_backing backing_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  page_heap heap_;
  counters count_;
  page_heap::round now_ = 0;
  std::atomic<bool> grown_{false};
};

}  // namespace troupe::transport
