// Membership under random programs: docs/membership.md has the rules that the model checks.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "tests/actors/membership/membership_model.hpp"

namespace troupe::membership_testing {
namespace {

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

// TROUPE_MEMBERSHIP_SEED=N replays one run and prints what happens in it; TROUPE_MEMBERSHIP_SEEDS=N
// runs so many.
TEST(membership_model, keeps_its_rules_whatever_happens) {
  if (std::getenv("TROUPE_MEMBERSHIP_SEED")) {
    membership_model world(number("TROUPE_MEMBERSHIP_SEED", 0), &std::cerr);
    EXPECT_EQ(world.run(), "");
    return;
  }
  membership_model::tally all;
  for (std::uint64_t seed = 1; seed <= number("TROUPE_MEMBERSHIP_SEEDS", 30'000); ++seed) {
    membership_model world(seed, nullptr);
    ASSERT_EQ(world.run(), "") << "replay it with TROUPE_MEMBERSHIP_SEED=" << seed;
    const auto& seen = world.seen();
    all.steps += seen.steps;
    all.deaths += seen.deaths;
    all.joins += seen.joins;
    all.leaves += seen.leaves;
    all.elections += seen.elections;
    all.fenced += seen.fenced;
  }
  std::cout << all.steps << " steps: " << all.deaths << " deaths, " << all.joins << " joins, "
            << all.leaves << " leaves; " << all.elections << " elections, " << all.fenced
            << " learned that they were fenced\n";
  if (std::getenv("TROUPE_MEMBERSHIP_SEEDS")) return;
  // The programs are worth something.
  for (const auto count : {all.steps, all.deaths, all.joins, all.leaves, all.elections, all.fenced})
    EXPECT_GT(count, 1'000u);
}

}  // namespace
}  // namespace troupe::membership_testing
