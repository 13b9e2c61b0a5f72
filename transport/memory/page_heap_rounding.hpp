#pragma once

#include <cstdint>

namespace troupe::transport {

/// `to` is a power of two. In 64 bits, for what lies beyond the largest reserve.
constexpr std::uint64_t round_up(std::uint64_t number, std::uint64_t to) noexcept {
  return (number + to - 1) & ~(to - 1);
}
constexpr std::uint64_t round_down(std::uint64_t number, std::uint64_t to) noexcept {
  return number & ~(to - 1);
}

}  // namespace troupe::transport
