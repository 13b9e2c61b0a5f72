#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "troupe/transport/memory/arena_memory.hpp"
#include "troupe/transport/memory/page_heap.hpp"

namespace troupe::transport {

/// The first chunks of an arena are backed by pieces of 16 KiB, when a block that touches them is
/// taken: a program with little tensor memory holds little more than it uses. A chunk all of whose
/// pieces are there becomes a huge page. Behind them whole chunks are backed, and everywhere where
/// the system's pages are larger than a piece. Thread-safe.
class gradual_backing {
public:
  explicit gradual_backing(arena_memory& memory);

  /// Backs the part of `span`, whole chunks, that lies behind the first chunks. False where there
  /// is no memory.
  bool back_chunks(granule_span span) noexcept;

  /// Backs what is missing of a block that the caller owns, before it is used. False where there is
  /// no memory. Hot path, behind the first chunks: one comparison.
  bool back_block(granule_span block) noexcept {
    return block.first >= end_of_pieces_ || back_pieces(block);
  }

  /// These chunks, of which nobody has a block, have returned to the system.
  void forget(granule_span span) noexcept;

private:
  static constexpr std::uint32_t first_chunks = 4;
  static constexpr std::uint32_t granules_of_piece = (std::uint32_t{16} << 10) / arena_granule;
  static constexpr std::uint32_t pieces_of_chunk = granules_of_chunk / granules_of_piece;
  static constexpr std::uint32_t words_of_chunk = pieces_of_chunk / 32;  // a bit for each piece

  bool back_pieces(granule_span block) noexcept;
  bool is_whole(std::uint32_t chunk) const noexcept;

  arena_memory& memory_;
  const std::uint32_t end_of_pieces_;  // granules
  // Set after a piece is backed. Two threads that miss the same one both back it, which does no
  // harm: the system keeps what is there.
  std::array<std::atomic<std::uint32_t>, first_chunks * words_of_chunk> there_{};
};

}  // namespace troupe::transport
