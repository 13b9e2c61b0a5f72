#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

namespace troupe {

class peer;

/// A node in one of its lives. One that comes back at the same rank is another node: it numbers its
/// requests and waits anew.
struct incarnation {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const incarnation&, const incarnation&) = default;
  friend constexpr auto troupe_fields(const incarnation*) {
    return std::make_tuple(&incarnation::rank, &incarnation::number);
  }
};

incarnation incarnation_of(const peer& one) noexcept;

}  // namespace troupe
