// What is lent, under seeds that interleave the ranks and delay their stores.
#include "troupe/actors/groups/shared/loan_cell.hpp"

#include <gtest/gtest.h>

#include "tests/actors/groups/shared/simulated_memory.hpp"
#include "troupe/actors/groups/shared/process_memory.hpp"

namespace troupe::groups {
namespace {

using test::interleaving;
using test::simulated_memory;

struct lent_memory {
  loan_cell<simulated_memory> loan;
  simulated_memory::cell<std::uint64_t> data;
  simulated_memory::cell<std::uint64_t> shown;  // the step of the last loan
};

struct loan_result {
  int wrong = 0;  // what was not as the lender had it when it lent it
  bool written = false;
};

// Rank 0 lends its memory again and again, and writes it when it is its own: `early` of those that
// have it are not waited for.
loan_result lend_repeatedly(std::uint64_t seed, int ranks, std::uint64_t rounds,
                            std::uint64_t early = 0) {
  interleaving order(seed, {});
  lent_memory shared;
  loan_result out;
  std::vector<std::function<void()>> bodies;
  bodies.emplace_back([&] {
    const auto others = (std::uint64_t{1} << ranks) - 2;
    for (std::uint64_t round = 1; round <= rounds; ++round) {
      shared.data.store(round, std::memory_order_relaxed);
      shared.loan.lend(others);
      shared.shown.store(round, std::memory_order_release);
      while (!shared.loan.is_over(0, early)) order.point();
    }
    out.written = true;
  });
  for (int rank = 1; rank < ranks; ++rank)
    bodies.emplace_back([&, rank] {
      for (std::uint64_t round = 1; round <= rounds; ++round) {
        while (shared.shown.load(std::memory_order_acquire) < round) order.point();
        shared.loan.take(rank);
        for (auto looks = order.draw() % 5; looks > 0; --looks)
          out.wrong += shared.data.load(std::memory_order_relaxed) != round;
        shared.loan.give_back(rank);
      }
    });
  order.run(bodies);
  return out;
}

TEST(LoanCell, KeepsMemoryAsItIsUntilAllHaveGivenItBack) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed)
    for (const int ranks : {2, 3}) {
      const auto result = lend_repeatedly(seed, ranks, 5);
      ASSERT_EQ(result.wrong, 0) << "seed " << seed << ", " << ranks << " ranks";
      ASSERT_TRUE(result.written) << "seed " << seed << ", " << ranks << " ranks";
    }
}

// The simulation finds what a lender that does not wait for all does.
TEST(LoanCell, HasToWaitForAll) {
  bool wrong = false;
  for (std::uint64_t seed = 1; seed <= 200 && !wrong; ++seed)
    wrong = lend_repeatedly(seed, 3, 5, 1 << 2).wrong > 0;
  EXPECT_TRUE(wrong);
}

TEST(LoanCell, IsOverWhenThoseThatHaveItAreDeadOrHaveNotTakenIt) {
  loan_cell<process_memory> loan{};
  EXPECT_TRUE(loan.is_over());
  loan.lend(0b110);
  EXPECT_FALSE(loan.is_over());
  EXPECT_TRUE(loan.is_over(0, 0b110));
  // Ranks that have left an operation that failed do not take what it has shown any more.
  EXPECT_FALSE(loan.is_over(0b010));
  EXPECT_TRUE(loan.is_over(0b110));
  loan.take(1);
  EXPECT_FALSE(loan.is_over(0b110));
  EXPECT_TRUE(loan.is_over(0b110, 0b010));
  loan.give_back(1);
  EXPECT_TRUE(loan.is_over(0b110));
  EXPECT_FALSE(loan.is_over());
}

}  // namespace
}  // namespace troupe::groups
