// Loans as a state machine, under many seeds. TROUPE_SEED=n runs that one alone; TROUPE_SEEDS=n
// runs so many.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/transport/lending/random_loans.hpp"

namespace troupe::transport::lending::test {
namespace {

std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text ? std::stoull(text) : otherwise;
}

TEST(lending_seeds, what_is_lent_stays_as_it_is_and_comes_back) {
  const auto alone = number_in("TROUPE_SEED", 0);
  const auto count = number_in("TROUPE_SEEDS", 60);
  std::uint64_t lent = 0, came_home = 0, passed_on = 0, copied_on = 0, crashes = 0;
  std::uint64_t handed = 0, written = 0;
  for (std::uint64_t i = 1; i <= (alone > 0 ? 1 : count); ++i) {
    random_loans::settings how;
    how.seed = alone > 0 ? alone : i;
    how.nodes = static_cast<rank_t>(2 + how.seed % 3);
    how.faults = how.seed % 4 != 0;
    random_loans world(how);
    world.run();
    lent += world.lent;
    came_home += world.came_home;
    passed_on += world.passed_on;
    copied_on += world.copied_on;
    crashes += world.crashes;
    handed += world.handed;
    written += world.written;
    if (!how.faults) {
      EXPECT_EQ(world.received, world.sent);
    }
    ASSERT_FALSE(testing::Test::HasFailure()) << "TROUPE_SEED=" << how.seed << " runs it again";
  }
  fmt::print(
      "{} lent, {} came home, {} passed on, {} copied on, {} handed over, {} written to, {} "
      "crashes\n",
      lent, came_home, passed_on, copied_on, handed, written, crashes);
  if (alone > 0) return;
  EXPECT_GT(lent, 10 * count);
  EXPECT_GT(came_home, count);
  EXPECT_GT(passed_on, count);
  EXPECT_GT(handed, 10 * count);
  EXPECT_GT(written, count);
  EXPECT_GT(crashes, count / 4);
}

}  // namespace
}  // namespace troupe::transport::lending::test
