#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

#include "troupe/actors/cluster/peer_table.hpp"

namespace troupe {

/// A node in one of its lives. One that comes back at the same rank is another node: it numbers its
/// requests and waits anew.
struct incarnation {
  transport::rank_t rank = 0;
  std::uint64_t number = 0;

  friend auto operator<=>(const incarnation&, const incarnation&) = default;
  friend constexpr auto troupe_fields(const incarnation*) {
    return std::make_tuple(&incarnation::rank, &incarnation::number);
  }
};

inline incarnation incarnation_of(const peer& one) noexcept {
  return {one.rank(), one.incarnation};
}

}  // namespace troupe
