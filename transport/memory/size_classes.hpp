#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe::transport {

/// Memory is cut into granules; it becomes backed, and returns to the system, by chunks.
inline constexpr std::size_t arena_granule = std::size_t{2} << 10;
inline constexpr std::size_t arena_chunk = std::size_t{2} << 20;  // the size of a huge page
inline constexpr std::uint32_t granules_of_chunk = arena_chunk / arena_granule;

/// Blocks of at most this size are of a class, and threads keep free ones; larger ones have any
/// multiple of 64 KiB. From 16 KiB on a block is at most an eighth larger than what was asked for.
inline constexpr std::size_t largest_of_class = std::size_t{1} << 20;

/// Classes are 1 to 16 granules, then eight for each doubling. They count from 1.
inline constexpr unsigned size_classes = 16 + 8 * 5;

constexpr std::uint32_t granules_of(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + arena_granule - 1) / arena_granule);
}

/// The smallest class that holds so many bytes, 1 to largest_of_class.
constexpr unsigned class_of(std::size_t bytes) noexcept {
  const auto n = granules_of(bytes);
  if (n <= 16) return n;
  const auto shift = static_cast<unsigned>(std::bit_width(n - 1)) - 4;
  const auto steps = ((n - 1) >> shift) + 1;  // 9 to 16, rounded up
  return 8 * (shift + 1) + steps - 8;
}

constexpr std::uint32_t granules_of_class(unsigned size_class) noexcept {
  if (size_class <= 16) return size_class;
  return (9 + (size_class - 17) % 8) << ((size_class - 17) / 8 + 1);
}

/// Of a block that is too large for a class.
constexpr std::uint32_t granules_of_large(std::size_t bytes) noexcept {
  constexpr auto step = std::size_t{64} << 10;
  return granules_of((bytes + step - 1) / step * step);
}

/// In granules, a power of two. Chunks become huge pages, so a block lies on them wherever it
/// begins; a larger alignment would only leave gaps. These are at most an eighth of the block.
constexpr std::uint32_t alignment_of_large(std::uint32_t granules) noexcept {
  if (granules % granules_of_chunk == 0) return granules_of_chunk;
  return std::min(std::bit_floor(granules / 8), granules_of_chunk);
}

}  // namespace troupe::transport
