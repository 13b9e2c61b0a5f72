// Processes killed at random, TROUPE_SOAK_KILLS of them (300 unless told), from a seed that is
// another one each time, or TROUPE_FIRST_SEED.

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "tests/actors/kill_run.hpp"

namespace troupe::test {

namespace {

TEST(killed_at_random, leave_survivors_that_go_on_for_long) {
  const auto* kills = std::getenv("TROUPE_SOAK_KILLS");
  const auto* first = std::getenv("TROUPE_FIRST_SEED");
  kill_at_random(kills ? std::atoi(kills) : 300,
                 first ? std::strtoull(first, nullptr, 10) : std::random_device()() % 1'000'000);
}

}  // namespace

}  // namespace troupe::test
