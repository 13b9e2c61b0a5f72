// Random programs of collectives on bad networks, a seed each: TROUPE_SEED=n runs that one alone,
// TROUPE_FIRST_SEED and TROUPE_SEEDS=n so many.

#include "tests/actors/groups/random_collectives.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "troupe/messages/base/log.hpp"

namespace troupe::test {
namespace {

std::uint64_t number_given(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

TEST(random_collective_programs, are_clean) {
  const auto alone = number_given("TROUPE_SEED", 0);
  if (!alone) log().set_level(spdlog::level::off);  // lost nodes
  const auto first = alone ? alone : number_given("TROUPE_FIRST_SEED", 1);
  const auto count = alone ? 1 : number_given("TROUPE_SEEDS", 60);
  std::uint64_t right = 0, failed = 0;
  for (auto seed = first; seed < first + count; ++seed) {
    random_collectives one(seed);
    for (const auto& what : one.run()) ADD_FAILURE() << "seed " << seed << ": " << what;
    right += one.right();
    failed += one.failed();
    if (!testing::Test::HasFailure()) continue;
    std::cout << "replay: TROUPE_SEED=" << seed << " random_collectives_test\n";
    return;
  }
  std::cout << count << " seeds, " << right << " calls right, " << failed << " with an error\n";
  if (count >= 50) {
    EXPECT_GT(right, 20 * failed / 10);
    EXPECT_GT(failed, 0u);
  }
}

TEST(random_collective_programs, do_the_same_with_the_same_seed) {
  log().set_level(spdlog::level::off);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    std::uint64_t steps[2];
    for (auto& count : steps) {
      random_collectives one(seed);
      one.run();
      count = one.steps();
    }
    EXPECT_EQ(steps[0], steps[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace troupe::test
