#include "troupe/transport/memory/gradual_backing.hpp"

#include <unistd.h>

#include <algorithm>

namespace troupe::transport {

gradual_backing::gradual_backing(arena_memory& memory)
    : memory_(memory),
      end_of_pieces_(::sysconf(_SC_PAGESIZE) <= long{granules_of_piece * arena_granule}
                         ? first_chunks * granules_of_chunk
                         : 0) {}

bool gradual_backing::back_chunks(granule_span span) noexcept {
  const auto from = std::max(span.first, end_of_pieces_);
  return from >= span.end() ||
         memory_.back(from * arena_granule, (span.end() - from) * arena_granule);
}

bool gradual_backing::is_whole(std::uint32_t chunk) const noexcept {
  const auto* const words = &there_[chunk * words_of_chunk];
  return std::all_of(words, words + words_of_chunk,
                     [](const auto& word) { return word.load() == ~std::uint32_t{0}; });
}

// Missing pieces that lie side by side are backed by one call.
bool gradual_backing::back_pieces(granule_span block) noexcept {
  constexpr auto bytes = granules_of_piece * arena_granule;
  const auto end = std::min(block.end(), end_of_pieces_);
  const auto last = (end + granules_of_piece - 1) / granules_of_piece;
  // Acquires what the thread that backed a piece has made of it: the pages are mapped.
  const auto is_there = [&](std::uint32_t piece) {
    return (there_[piece / 32].load(std::memory_order_acquire) >> piece % 32 & 1) != 0;
  };
  for (auto piece = block.first / granules_of_piece; piece < last;) {
    auto next = piece;
    while (next < last && !is_there(next)) ++next;
    if (next > piece && !memory_.back_pages(piece * bytes, (next - piece) * bytes)) return false;
    for (; piece < next; ++piece) {
      const auto bit = std::uint32_t{1} << piece % 32;
      const auto before = there_[piece / 32].fetch_or(bit);
      if ((before & bit) == 0 && is_whole(piece / pieces_of_chunk))
        memory_.join_pages(piece / pieces_of_chunk * arena_chunk, arena_chunk);
    }
    while (piece < last && is_there(piece)) ++piece;
  }
  return true;
}

void gradual_backing::forget(granule_span span) noexcept {
  const auto last = std::min(span.end() / granules_of_chunk, first_chunks);
  for (auto chunk = span.first / granules_of_chunk; chunk < last; ++chunk)
    for (std::uint32_t word = 0; word < words_of_chunk; ++word)
      there_[chunk * words_of_chunk + word].store(0);
}

}  // namespace troupe::transport
