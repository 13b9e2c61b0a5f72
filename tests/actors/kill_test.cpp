// Processes killed at random, over TCP. `make soak` does more of it, and over shared memory
// (kill_soak_test.cpp).

#include <gtest/gtest.h>

#include "tests/actors/kill_run.hpp"

namespace troupe::test {

namespace {

TEST(killed_at_random, leave_survivors_that_go_on) { kill_at_random("tcp", 30, 1); }

}  // namespace

}  // namespace troupe::test
