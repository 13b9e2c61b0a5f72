// Nodes that lend tensors, killed at random. `make soak` does more of it (lent_kill_soak_test.cpp).

#include "tests/actors/node/lent_kills.hpp"

namespace troupe::test {

namespace {

TEST(lenders_killed_at_random, leave_nothing_lent_and_all_memory) { kill_lenders(10, 1); }

}  // namespace

}  // namespace troupe::test
