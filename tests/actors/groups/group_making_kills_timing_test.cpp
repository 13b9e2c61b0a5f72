// Ranks killed while groups are made, at random: from a seed that is another one each time, or
// TROUPE_FIRST_SEED.

#include "tests/actors/groups/group_kills.hpp"

namespace troupe::test {
namespace {

TEST(ranks_killed_while_groups_are_made, are_named_to_all_survivors_within_a_second) {
  kill_ranks(10, first_seed_of_kills(), "making");
}

}  // namespace
}  // namespace troupe::test
