// Processes killed at random. `make soak` does more of it (kill_soak_test.cpp).

#include <gtest/gtest.h>

#include "tests/actors/node/kill_run.hpp"

namespace troupe::test {

namespace {

TEST(killed_at_random, leave_survivors_that_go_on_over_tcp) { kill_at_random("tcp", 8, 1); }

TEST(killed_at_random, leave_survivors_that_go_on_over_shared_memory) {
  kill_at_random("shared_memory", 12, 1);
}

}  // namespace

}  // namespace troupe::test
