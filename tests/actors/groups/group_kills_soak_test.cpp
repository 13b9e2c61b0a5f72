// Ranks killed inside of collectives, at random: TROUPE_SOAK_KILLS of them (300 by default), from a
// seed that is another one each time, or TROUPE_FIRST_SEED.

#include <cstdlib>

#include "tests/actors/groups/group_kills.hpp"

namespace troupe::test {
namespace {

TEST(ranks_killed_for_long, are_named_to_all_survivors_who_go_on) {
  const auto* kills = std::getenv("TROUPE_SOAK_KILLS");
  kill_ranks(kills ? std::atoi(kills) : 300, first_seed_of_kills());
}

}  // namespace
}  // namespace troupe::test
