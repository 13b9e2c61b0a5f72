// Processes killed at random, TROUPE_SOAK_KILLS of them (300 by default), from a seed that is
// another one each time, or TROUPE_FIRST_SEED.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/actors/node/kill_run.hpp"

namespace troupe::test {

namespace {

void kill_for_long(const std::string& network) {
  const auto* kills = std::getenv("TROUPE_SOAK_KILLS");
  const auto* first = std::getenv("TROUPE_FIRST_SEED");
  kill_at_random(network, kills ? std::atoi(kills) : 300,
                 first ? std::strtoull(first, nullptr, 10) : std::random_device()() % 1'000'000);
}

TEST(killed_at_random, leave_survivors_that_go_on_over_tcp) { kill_for_long("tcp"); }
TEST(killed_at_random, leave_survivors_that_go_on_over_tcp_of_ucx) { kill_for_long("ucx_tcp"); }

TEST(killed_at_random, leave_survivors_that_go_on_over_shared_memory) {
  kill_for_long("shared_memory");
}

}  // namespace

}  // namespace troupe::test
