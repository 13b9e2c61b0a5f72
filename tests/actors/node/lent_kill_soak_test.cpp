// Nodes that lend tensors, killed at random: TROUPE_SOAK_KILLS of them (300 by default), from a
// seed that is another one each time, or TROUPE_FIRST_SEED.

#include <cstdlib>

#include "tests/actors/node/lent_kills.hpp"

namespace troupe::test {

namespace {

TEST(lenders_killed_for_long, leave_nothing_lent_and_all_memory) {
  const auto* kills = std::getenv("TROUPE_SOAK_KILLS");
  const auto* first = std::getenv("TROUPE_FIRST_SEED");
  kill_lenders(kills ? std::atoi(kills) : 300,
               first ? std::strtoull(first, nullptr, 10) : std::random_device()() % 1'000'000);
}

}  // namespace

}  // namespace troupe::test
