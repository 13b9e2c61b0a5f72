#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "troupe/transport/memory/lazy_table.hpp"
#include "troupe/transport/memory/size_classes.hpp"

namespace troupe::transport {

/// Consecutive granules of a reserve.
struct granule_span {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  std::uint32_t end() const noexcept { return first + count; }
  explicit operator bool() const noexcept { return count > 0; }
};

/// Which granules of a reserve are taken, which are free and backed by memory, and which are free
/// and fresh, not backed. Fresh memory is whole chunks. Taking prefers the smallest free span that
/// is large enough, and spans that were freed lately; what is freed joins its neighbours.
///
/// Knows nothing of the memory itself, locks nothing and makes no system call. Its tables are 13
/// bytes a granule, of which those of memory that was never used take no memory.
class page_heap {
public:
  /// So many chunks, all fresh; at most 2^22 - 1 (8 TiB). Throws std::bad_alloc.
  explicit page_heap(std::uint32_t chunks);

  /// What a taken block is called: 0 to 250.
  using label = std::uint8_t;
  /// A time, which wraps around: what is compared is less than 128 rounds apart.
  using round = std::uint8_t;

  /// Backed memory, aligned to `alignment` granules (a power of two); none if there is none.
  granule_span take_backed(std::uint32_t count, std::uint32_t alignment, label name) noexcept;

  /// Free memory of which a part is fresh, together with the rest of each fresh chunk it touches.
  struct growth {
    static constexpr std::size_t most_parts = 16;

    granule_span block;  ///< what was asked for
    granule_span whole;  ///< what is taken
    std::array<granule_span, most_parts> fresh;
    std::size_t parts = 0;  ///< of `fresh`
    std::uint32_t fresh_granules = 0;

    explicit operator bool() const noexcept { return bool(block); }
  };

  /// Takes memory as above with as little fresh memory as possible. The caller backs the parts and
  /// calls `settle`, or else `undo`.
  growth take_growing(std::uint32_t count, std::uint32_t alignment) noexcept;
  void settle(const growth& grown, label name, round now) noexcept;
  void undo(const growth& grown) noexcept;

  /// Takes up to so many consecutive fresh chunks, to be backed and given back by `put_backed`.
  granule_span take_fresh(std::uint32_t most_chunks) noexcept;

  /// Takes up to so many consecutive free and backed chunks in which nothing was freed later than
  /// `last`, to be made fresh.
  granule_span take_unused(round last, std::uint32_t most_chunks) noexcept;

  /// How many chunks `take_unused` would find for any time.
  std::uint32_t unused_chunks() const noexcept;

  void put_backed(granule_span span, round now) noexcept;
  void put_fresh(granule_span span) noexcept;
  /// Takes back `take_unused`.
  void put_unused(granule_span span) noexcept;

  /// The taken block that begins at a granule. Safe without the lock for a block that the caller
  /// owns.
  granule_span block_at(std::uint32_t first) const noexcept { return {first, nodes_[first].count}; }
  label label_at(std::uint32_t first) const noexcept {
    return static_cast<label>(tags_[first] - first_label);
  }

  std::uint32_t size() const noexcept { return size_; }                ///< granules
  std::uint32_t backed_free() const noexcept { return backed_free_; }  ///< granules

private:
  // The tags of a granule: the first and the last one of each span have one that is true.
  enum tag : std::uint8_t { taken, fresh, backed, first_label };

  // Of the first granule of each span; of the last one of free spans `count` alone.
  struct node {
    std::uint32_t count;
    std::uint32_t next, previous;  // free spans of about the same size; 0: none, else the index + 1
  };

  static constexpr std::size_t bins = 32 + 27 * 16;
  // Free spans by their size: exact below 32 granules, then 16 bins a doubling.
  struct index {
    std::array<std::uint32_t, bins> heads{};
    std::array<std::uint64_t, (bins + 63) / 64> filled{};

    std::size_t next_filled(std::size_t from) const noexcept;
  };

  static std::size_t bin_of(std::uint32_t count) noexcept;
  index& index_of(tag kind) noexcept { return kind == fresh ? fresh_index_ : backed_index_; }

  bool is_free(std::uint32_t at) const noexcept {
    return tags_[at] == fresh || tags_[at] == backed;
  }
  void insert(granule_span span, tag kind) noexcept;
  void remove(granule_span span, tag kind) noexcept;
  void join(granule_span span, tag kind) noexcept;
  void mark_taken(granule_span span, std::uint8_t as) noexcept;
  void stamp(granule_span span, round now) noexcept;
  // Takes a part of a free span.
  void cut(granule_span from, tag kind, granule_span part, std::uint8_t as) noexcept;

  struct window {
    granule_span block;
    std::uint32_t span = 0;   // the free span in which it begins
    std::uint32_t fresh = 0;  // granules to be backed
  };
  window best_window(std::uint32_t count, std::uint32_t alignment) const noexcept;
  window window_at(std::uint32_t span, std::uint64_t start, std::uint32_t count) const noexcept;

  std::uint32_t size_;
  std::uint32_t backed_free_ = 0;
  lazy_table<std::uint8_t> tags_;
  lazy_table<node> nodes_;
  lazy_table<round> stamps_;  // of each chunk: when something in it was last freed
  index fresh_index_;
  index backed_index_;
};

}  // namespace troupe::transport
