// The protocol of steps under seeds that interleave the ranks and delay their stores.
#include "troupe/actors/groups/shared/exchange.hpp"

#include <gtest/gtest.h>

#include "tests/actors/groups/shared/simulated_memory.hpp"

namespace troupe::groups {
namespace {

using test::interleaving;
using test::simulated_memory;
using simulated_exchange = exchange<simulated_memory>;

struct no_limit {
  clock::time_point deadline() const { return clock::time_point::max(); }
};

// What ranks share: the lines, and memory of each rank that it uses at every second step.
struct simulated_segment {
  explicit simulated_segment(int ranks)
      : lines(2 * static_cast<std::size_t>(ranks)),
        sleepers(static_cast<std::size_t>(ranks)),
        areas(2 * static_cast<std::size_t>(ranks)) {}

  std::vector<simulated_exchange::line> lines;
  std::vector<simulated_exchange::sleeper> sleepers;
  std::vector<std::array<simulated_memory::cell<std::uint64_t>, 2>> areas;
  abort_line<simulated_memory> abort;
};

constexpr std::uint64_t shown_value(int rank, int step, int which) {
  return static_cast<std::uint64_t>(rank * 10000 + step * 10 + which + 1);
}

struct simulated_result {
  bool ended = false;  // nobody sleeps for ever
  int wrong = 0;       // values that were not what the rank had shown
  int naps = 0;
  int aborted = 0;
};

// `aborts` aborts instead of its step `at`; -1: nobody, all do so after their last step.
simulated_result simulate(std::uint64_t seed, int ranks, int steps, interleaving::options how,
                          int aborts = -1, int at = 0) {
  interleaving order(seed, how);
  simulated_segment shared(ranks);
  simulated_result out;
  std::vector<std::function<void()>> bodies;
  for (int rank = 0; rank < ranks; ++rank)
    bodies.push_back([&, rank] {
      const waiting quick{
          .yields = rank % 2 == 0, .looks = 1, .awake = std::chrono::microseconds(50)};
      simulated_exchange mine(rank, ranks, shared.lines, shared.sleepers, shared.abort, quick);
      for (int step = 1; step <= steps; ++step) {
        // Some come late, when others sleep.
        for (auto pauses = order.draw() % 40 == 0 ? 60u : 0u; pauses > 0; --pauses) order.point();
        if (rank == aborts && step == at) {
          simulated_exchange::abort(shared.abort, shared.sleepers, 7);
          ++out.aborted;
          return;
        }
        const auto parity = mine.parity();
        for (int i = 0; i < 2; ++i)
          shared.areas[2 * static_cast<std::size_t>(rank) + parity][static_cast<std::size_t>(i)]
              .store(shown_value(rank, step, i), std::memory_order_relaxed);
        step_entry entry;
        entry.note = static_cast<std::uint32_t>(step);
        entry.words[6] = shown_value(rank, step, 6);
        const auto result = mine.step(entry, no_limit{});
        if (result == wait_result::aborted) {
          ++out.aborted;
          return;
        }
        for (int p = 0; p < ranks; ++p) {
          out.wrong += mine.word_of(p, 6) != shown_value(p, step, 6);
          out.wrong += mine.note_of(p) != static_cast<std::uint32_t>(step);
          for (int i = 0; i < 2; ++i)
            out.wrong +=
                shared.areas[2 * static_cast<std::size_t>(p) + parity][static_cast<std::size_t>(i)]
                    .load(std::memory_order_relaxed) != shown_value(p, step, i);
        }
      }
      if (aborts < 0) simulated_exchange::abort(shared.abort, shared.sleepers, 7);
    });
  out.ended = order.run(bodies);
  out.naps = order.naps;
  return out;
}

constexpr std::uint64_t exchange_seeds = 400;

TEST(Exchange, ShowsWhatWasWrittenAndForgetsNoSleeper) {
  int naps = 0;
  for (std::uint64_t seed = 1; seed <= exchange_seeds; ++seed)
    for (const int ranks : {2, 3}) {
      const auto result = simulate(seed, ranks, 6, {});
      ASSERT_TRUE(result.ended) << "seed " << seed << ", " << ranks << " ranks";
      ASSERT_EQ(result.wrong, 0) << "seed " << seed << ", " << ranks << " ranks";
      ASSERT_EQ(result.aborted, 0) << "seed " << seed << ", " << ranks << " ranks";
      naps += result.naps;
    }
  EXPECT_GT(naps, 100);
}

// Who has ended its last step and leaves, which aborts, disturbs nobody that is in it still.
TEST(Exchange, EndsAStepThatAllHaveBegun) {
  for (std::uint64_t seed = 1; seed <= 10 * exchange_seeds; ++seed)
    ASSERT_EQ(simulate(seed, 2, 1, {}).aborted, 0) << "seed " << seed;
}

TEST(Exchange, WakesAllWhenOneAborts) {
  for (std::uint64_t seed = 1; seed <= exchange_seeds; ++seed) {
    const auto at = 1 + static_cast<int>(seed % 4);
    const auto result = simulate(seed, 3, 6, {}, static_cast<int>(seed % 3), at);
    ASSERT_TRUE(result.ended) << "seed " << seed;
    ASSERT_EQ(result.wrong, 0) << "seed " << seed;
    ASSERT_EQ(result.aborted, 3) << "seed " << seed;
  }
}

// The simulation finds what the fences and the release are for.
TEST(Exchange, NeedsItsFences) {
  bool forgotten = false;
  for (std::uint64_t seed = 1; seed <= 2000 && !forgotten; ++seed)
    forgotten = !simulate(seed, 2, 6, {.fences = false}).ended;
  EXPECT_TRUE(forgotten);
}

TEST(Exchange, NeedsItsRelease) {
  bool wrong = false;
  for (std::uint64_t seed = 1; seed <= 200 && !wrong; ++seed)
    wrong = simulate(seed, 2, 6, {.releases = false}).wrong > 0;
  EXPECT_TRUE(wrong);
}

}  // namespace
}  // namespace troupe::groups
