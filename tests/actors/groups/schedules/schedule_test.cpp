// All ranks' schedules under Hockney's model: messages, bytes and critical paths are those of the
// formulas, and the data are where they belong.

#include "troupe/actors/groups/schedules/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/actors/groups/schedules/schedule_simulation.hpp"
#include "tests/actors/groups/schedules/symbolic_data.hpp"
#include "troupe/actors/groups/schedules/costs.hpp"
#include "troupe/actors/groups/schedules/gathers.hpp"

namespace troupe::groups::schedules {
namespace {

constexpr double block_bytes = 64;
// Numbers of which no sum is another one by chance.
constexpr link test_link{1.0, 1.0 / 1024, 1.0 / 65536};

std::vector<int> sizes_up_to(int most) {
  std::vector<int> out;
  for (int ranks = 1; ranks <= 64; ++ranks) out.push_back(ranks);
  for (const int ranks :
       {65, 96, 127, 128, 129, 255, 256, 511, 512, 1023, 1024, 1025, 2048, 3001, 4095, 4096})
    if (ranks <= most) out.push_back(ranks);
  return out;
}

std::vector<schedule> schedules_of_all(task what, algorithm by, int ranks, int root, int pieces) {
  std::vector<schedule> out;
  for (int rank = 0; rank < ranks; ++rank) out.push_back(make(what, by, rank, ranks, root, pieces));
  return out;
}

// Every rank's blocks as the task finds them.
void fill(symbolic_data& data, task what, int ranks, int blocks, int root) {
  for (int rank = 0; rank < ranks; ++rank)
    for (int block = 0; block < blocks; ++block) {
      const bool mine = what == task::all_gather  ? block == rank
                        : what == task::broadcast ? rank == root
                                                  : true;
      // Of an all_to_all: from this rank to the one `block` later.
      if (mine) data.at(rank, block) = contributions::of(rank, block);
    }
}

contributions expected(task what, int rank, int ranks, int block, int root) {
  switch (what) {
    case task::all_gather: return contributions::of(block, block);
    case task::broadcast: return contributions::of(root, block);
    case task::all_to_all: return contributions::of((rank + ranks - block) % ranks, block);
    default: break;
  }
  return {};  // see sums
}

void check_data(symbolic_data& data, task what, int ranks, int blocks, int root) {
  std::vector<contributions> sums(static_cast<std::size_t>(blocks));
  if (what == task::all_reduce || what == task::reduce_scatter)
    for (int block = 0; block < blocks; ++block)
      for (int rank = 0; rank < ranks; ++rank)
        sums[static_cast<std::size_t>(block)] =
            sums[static_cast<std::size_t>(block)] + contributions::of(rank, block);
  for (int rank = 0; rank < ranks; ++rank)
    for (int block = 0; block < blocks; ++block) {
      if (what == task::reduce_scatter && block != rank) continue;
      const bool summed = what == task::all_reduce || what == task::reduce_scatter;
      const auto right =
          summed ? sums[static_cast<std::size_t>(block)] : expected(what, rank, ranks, block, root);
      ASSERT_EQ(data.at(rank, block), right) << "rank " << rank << ", block " << block;
    }
}

long messages_of(task what, algorithm by, int ranks, int pieces) {
  const long p = ranks, steps = log2_up(ranks), within = power_of_two_within(ranks);
  const long logs = std::lround(std::log2(within)) * within, beyond = p - within;
  switch (what) {
    case task::all_reduce:
      if (by == algorithm::doubling) return logs + 2 * beyond;
      if (by == algorithm::halving) return 2 * logs + 2 * beyond;
      return 2 * p * (p - 1);
    case task::all_gather:
      return by == algorithm::bruck || by == algorithm::doubling ? p * steps : p * (p - 1);
    case task::all_to_all: return by == algorithm::bruck ? p * steps : p * (p - 1);
    case task::broadcast:
      if (by == algorithm::tree) return p - 1;
      if (by == algorithm::chain) return pieces * (p - 1);
      return (p - 1) + (p - 1) * (p - 1);
    default: return p * (p - 1);
  }
}

void check(task what, algorithm by, int ranks, int root = 0, int pieces = 1) {
  SCOPED_TRACE(::testing::Message() << to_string(what) << " by " << to_string(by) << ", " << ranks
                                    << " ranks, root " << root << ", " << pieces << " pieces");
  if (!has(what, by, ranks)) return;
  auto all = schedules_of_all(what, by, ranks, root, pieces);
  const int blocks = all.front().blocks;
  symbolic_data data(ranks, blocks);
  fill(data, what, ranks, blocks, root);
  simulation run(std::move(all), block_bytes, test_link, data);
  const auto done = run.run();
  ASSERT_TRUE(done.complete);
  ASSERT_TRUE(data.fits());
  check_data(data, what, ranks, blocks, root);
  const auto formula = cost_of(what, by, ranks, blocks * block_bytes, pieces);
  const bool whole = power_of_two_within(ranks) == ranks;
  const bool exact =
      whole || (by != algorithm::scatter && !(what == task::all_to_all && by == algorithm::bruck));
  const double seconds = formula.seconds(test_link);
  if (exact)
    EXPECT_NEAR(done.seconds, seconds, 1e-9 * seconds);
  else
    EXPECT_LE(done.seconds, seconds * (1 + 1e-9));
  EXPECT_EQ(done.messages, messages_of(what, by, ranks, pieces));
}

void check_all(task what, algorithm by, int most) {
  for (const int ranks : sizes_up_to(most)) check(what, by, ranks);
}

TEST(Schedules, DoublingAllReduce) { check_all(task::all_reduce, algorithm::doubling, 4096); }
TEST(Schedules, HalvingAllReduce) { check_all(task::all_reduce, algorithm::halving, 4096); }
TEST(Schedules, DoublingAllGather) { check_all(task::all_gather, algorithm::doubling, 4096); }
TEST(Schedules, BruckAllGather) { check_all(task::all_gather, algorithm::bruck, 4096); }
TEST(Schedules, BruckAllToAll) { check_all(task::all_to_all, algorithm::bruck, 4096); }
TEST(Schedules, RingAllReduce) { check_all(task::all_reduce, algorithm::ring, 256); }
TEST(Schedules, RingReduceScatter) { check_all(task::reduce_scatter, algorithm::ring, 256); }
TEST(Schedules, RingAllGather) { check_all(task::all_gather, algorithm::ring, 256); }
TEST(Schedules, PairwiseAllReduce) { check_all(task::all_reduce, algorithm::direct, 256); }
TEST(Schedules, PairwiseReduceScatter) { check_all(task::reduce_scatter, algorithm::direct, 256); }
TEST(Schedules, DirectAllGather) { check_all(task::all_gather, algorithm::direct, 256); }
TEST(Schedules, PairwiseAllToAll) { check_all(task::all_to_all, algorithm::direct, 256); }

TEST(Schedules, Broadcasts) {
  for (const int ranks : sizes_up_to(4096))
    for (const int root : {0, ranks / 3, ranks - 1})
      check(task::broadcast, algorithm::tree, ranks, root);
  for (const int ranks : sizes_up_to(256))
    for (const int root : {0, ranks / 3, ranks - 1}) {
      check(task::broadcast, algorithm::scatter, ranks, root);
      if (ranks == 1) continue;
      for (const int pieces : {1, 2, 7, 32})
        check(task::broadcast, algorithm::chain, ranks, root, pieces);
    }
}

// Its tensor is only read.
TEST(Schedules, RootsOfBroadcastsReceiveNothing) {
  for (const auto by : {algorithm::tree, algorithm::scatter, algorithm::chain})
    for (const int ranks : {2, 3, 4, 7, 16})
      for (const auto& one : make(task::broadcast, by, 1, ranks, 1, 3).steps)
        EXPECT_EQ(one.from, nobody) << to_string(by) << ", " << ranks << " ranks";
}

TEST(Schedules, BarrierIsLogarithmic) {
  for (const int ranks : sizes_up_to(4096)) {
    std::vector<schedule> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(dissemination_barrier(rank, ranks));
    no_data none;
    const auto done = simulation(std::move(all), 0, test_link, none).run();
    EXPECT_TRUE(done.complete);
    EXPECT_EQ(done.seconds, log2_up(ranks) * test_link.alpha) << ranks;
    EXPECT_EQ(done.messages, static_cast<long>(ranks) * log2_up(ranks)) << ranks;
  }
}

// Nobody leaves a barrier before all have come: what each knows of is passed on.
TEST(Schedules, BarrierHearsOfAllRanks) {
  for (const int ranks : {2, 3, 5, 8, 31, 64}) {
    std::vector<schedule> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(dissemination_barrier(rank, ranks));
    struct known {
      using message = std::vector<bool>;
      std::vector<message> by_rank;
      message pack(int rank, const step&) { return by_rank[static_cast<std::size_t>(rank)]; }
      void unpack(int rank, const step&, message&& more) {
        auto& here = by_rank[static_cast<std::size_t>(rank)];
        for (std::size_t i = 0; i < here.size(); ++i) here[i] = here[i] || more[i];
      }
    } heard;
    for (int rank = 0; rank < ranks; ++rank) {
      heard.by_rank.emplace_back(static_cast<std::size_t>(ranks));
      heard.by_rank.back()[static_cast<std::size_t>(rank)] = true;
    }
    simulation(std::move(all), 0, test_link, heard).run();
    for (const auto& one : heard.by_rank)
      for (const bool there : one) EXPECT_TRUE(there);
  }
}

// Bytes on the wire: of a ring, and of all that are bandwidth optimal, 2 n (P - 1) / P a rank.
TEST(Schedules, LeastBytes) {
  for (const int ranks : {2, 3, 4, 7, 16})
    for (const auto by : {algorithm::ring, algorithm::direct}) {
      no_data none;
      auto all = schedules_of_all(task::all_reduce, by, ranks, 0, 1);
      const auto done = simulation(std::move(all), block_bytes, test_link, none).run();
      EXPECT_EQ(done.bytes, 2.0 * ranks * (ranks - 1) * block_bytes);
    }
}

TEST(Schedules, PiecesOfAChainAreTheBest) {
  const link over{20e-6, 1e-9, 0};
  for (const int ranks : {3, 4, 16})
    for (const double bytes : {1e4, 1e6, 64e6}) {
      const auto time = [&](int pieces) {
        return cost_of(task::broadcast, algorithm::chain, ranks, bytes, pieces).seconds(over);
      };
      const int best = best_pieces(ranks, bytes, over);
      EXPECT_LE(time(best), time(best + 1) * 1.0001);
      if (best > 1) {
        EXPECT_LE(time(best), time(best - 1) * 1.0001);
      }
    }
}

TEST(Schedules, NamesOfAlgorithms) {
  for (int i = 0; i < algorithms; ++i) {
    const auto one = static_cast<algorithm>(i);
    EXPECT_EQ(algorithm_named(to_string(one)), one);
  }
  EXPECT_FALSE(algorithm_named("magic"));
}

}  // namespace
}  // namespace troupe::groups::schedules
