#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe::transport {

/// Blocks of small_blocks have one of these sizes: multiples of 64 bytes up to 512, then four for
/// each doubling, up to 16 KiB. They count from 1.
inline constexpr unsigned small_classes = 8 + 4 * 5;
inline constexpr std::size_t largest_small = std::size_t{16} << 10;

inline constexpr auto bytes_of_small = [] {
  std::array<std::uint32_t, small_classes + 1> out{};
  for (unsigned c = 1; c <= small_classes; ++c) {
    const auto step = c <= 8 ? 0 : (c - 9) / 4 + 1;   // doublings of 64 bytes
    const auto units = c <= 8 ? c : 5 + (c - 9) % 4;  // of those
    out[c] = static_cast<std::uint32_t>((units << step) * 64);
  }
  return out;
}();
static_assert(bytes_of_small[small_classes] == largest_small);

namespace detail {

// By units of 64 bytes.
inline constexpr auto small_class_by_units = [] {
  std::array<std::uint8_t, largest_small / 64 + 1> out{};
  unsigned c = 1;
  for (std::size_t units = 1; units < out.size(); ++units) {
    while (bytes_of_small[c] < units * 64) ++c;
    out[units] = static_cast<std::uint8_t>(c);
  }
  return out;
}();

}  // namespace detail

/// The smallest class that holds so many bytes, 1 to largest_small.
constexpr unsigned small_class_of(std::size_t bytes) noexcept {
  return detail::small_class_by_units[(bytes + 63) / 64];
}

}  // namespace troupe::transport
