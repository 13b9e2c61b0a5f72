#pragma once

#include <compare>
#include <cstdint>
#include <tuple>

#include "troupe/actors/cluster/incarnation.hpp"

namespace troupe::detail {

/// A question that waits for an answer: the node `asker` has asked it at the node `at`.
struct question {
  incarnation asker;
  incarnation at;
  /// The asker's number for it; 0: it is not known. For a question to an actor of the asker's own
  /// node, the address of the future.
  std::uint64_t request = 0;
  std::uint64_t actor = 0;  ///< the actor that is asked; 0: a function

  friend auto operator<=>(const question&, const question&) = default;
  friend constexpr auto troupe_fields(const question*) {
    return std::make_tuple(&question::asker, &question::at, &question::request, &question::actor);
  }
};

}  // namespace troupe::detail
