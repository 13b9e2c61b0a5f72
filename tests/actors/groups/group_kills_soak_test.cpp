// Ranks killed inside of collectives, at random: TROUPE_SOAK_KILLS of them (300 by default), from a
// seed that is another one each time, or TROUPE_FIRST_SEED.

#include <cstdlib>
#include <iostream>
#include <random>

#include "tests/actors/groups/group_kills.hpp"

namespace troupe::test {
namespace {

TEST(ranks_killed_for_long, are_named_to_all_survivors_who_go_on) {
  const auto* kills = std::getenv("TROUPE_SOAK_KILLS");
  const auto* first = std::getenv("TROUPE_FIRST_SEED");
  const auto seed =
      first ? std::strtoull(first, nullptr, 10) : std::uint64_t{std::random_device()() % 1'000'000};
  std::cout << "from seed " << seed << " on\n";
  kill_ranks(kills ? std::atoi(kills) : 300, seed);
}

}  // namespace
}  // namespace troupe::test
