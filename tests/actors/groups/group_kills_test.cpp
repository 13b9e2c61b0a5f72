// Ranks killed inside of collectives, at random. `make soak` does more of it
// (group_kills_soak_test.cpp).

#include "tests/actors/groups/group_kills.hpp"

namespace troupe::test {
namespace {

TEST(ranks_killed_at_random, are_named_to_all_survivors_who_go_on) { kill_ranks(12, 0); }

}  // namespace
}  // namespace troupe::test
