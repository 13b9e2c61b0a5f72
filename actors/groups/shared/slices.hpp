#pragma once

#include <algorithm>
#include <cstddef>

namespace troupe::groups {

/// An abort is looked for after so many bytes of the tensors of others. A multiple of what elements
/// have.
inline constexpr std::size_t bytes_between_looks = 256 << 10;

/// A part of an array, in bytes.
struct byte_range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const noexcept { return end - begin; }
  bool empty() const noexcept { return begin == end; }
};

/// What `rank` of `ranks` works on, of `bytes` bytes: nearly equal parts that begin at whole cache
/// lines of the array, so that no two ranks write the same line of an aligned one. Elements have at
/// most 64 bytes and a power of two of them.
inline byte_range slice_of(std::size_t bytes, int rank, int ranks) noexcept {
  constexpr std::size_t line = 64;
  const auto lines = (bytes + line - 1) / line;
  const auto n = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(rank);
  const auto each = lines / n, more = lines % n;  // the first `more` ranks have one line more
  const auto first = r * each + std::min(r, more);
  const auto past = first + each + (r < more ? 1 : 0);
  return {std::min(first * line, bytes), std::min(past * line, bytes)};
}

/// The `index`th piece of `piece` bytes.
inline byte_range piece_of(std::size_t bytes, std::size_t index, std::size_t piece) noexcept {
  const auto begin = std::min(index * piece, bytes);
  return {begin, std::min(begin + piece, bytes)};
}

/// Where a piece lies in `room` bytes of an area, of which every second round has one: each piece
/// behind the one before. What is written again has then left the caches of both ranks, and a write
/// need not take it from there: three times as fast as one place for all.
inline std::size_t place_of_round(std::size_t round, std::size_t piece, std::size_t room) noexcept {
  return round / 2 % std::max<std::size_t>(1, room / piece) * piece;
}

inline std::size_t pieces_of(std::size_t bytes, std::size_t piece) noexcept {
  return (bytes + piece - 1) / piece;
}

}  // namespace troupe::groups
