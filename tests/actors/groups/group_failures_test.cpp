// When ranks die, hang, or differ: in a simulation, under seeds.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

simulation_options seeded(std::uint64_t seed) {
  simulation_options out;
  out.seed = seed;
  out.node.on_leader_loss = leader_loss::elect;
  return out;
}

class group_failures : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(seeds, group_failures, testing::Range<std::uint64_t>(1, 6));

TEST_P(group_failures, of_a_lossy_network_are_none) {
  auto how = seeded(GetParam());
  how.network.links.loss = 0.05;
  simulation cluster(how);
  const auto nodes = cluster.start(4);
  on_simulated(cluster, nodes, [](const node& here, int rank) {
    const auto world = here.world();
    for (const std::int64_t count : {1, 30'000}) {
      const auto x = at::full({count}, rank, at::kFloat);
      all_reduce(world, x);
      EXPECT_EQ(x[count - 1].item<int>(), 6);
      std::vector<work> started;
      for (int i = 0; i < 5; ++i) started.push_back(broadcast(world, x, i % 4, async));
      for (const auto& one : started) one.wait();
    }
    const auto part = world.split(rank % 2);
    const auto y = at::full({3}, rank, at::kInt);
    all_reduce(part, y);
    EXPECT_EQ(y[0].item<int>(), rank % 2 == 0 ? 2 : 4);
  });
}

TEST_P(group_failures, of_a_dead_rank_reach_every_survivor) {
  simulation cluster(seeded(GetParam()));
  const auto nodes = cluster.start(4);
  const auto dead = static_cast<std::uint32_t>(cluster.random(4));
  std::vector<clock::time_point> over(4);
  auto killer = cluster.spawn([&] {
    cluster.sleep(50ms);
    cluster.crash(dead);
  });
  clock::time_point known{};
  on_simulated(cluster, nodes, [&](const node& here, int rank) {
    const auto world = here.world();
    const auto pending = at::ones({2});
    try {
      if (static_cast<std::uint32_t>(rank) == dead) {
        barrier(world);
        cluster.sleep(1min);
        return;
      }
      barrier(world);
      const auto first = all_reduce(world, pending, async);
      const auto second = barrier(world, async);
      const auto letter = irecv(world, at::empty({1}, at::kFloat), static_cast<int>(dead));
      const auto text = thrown_text<peer_lost>([&] { all_reduce(world, at::ones({1})); });
      over[static_cast<std::size_t>(rank)] = cluster.now();
      EXPECT_THAT(text, HasSubstr(fmt::format("all_reduce, sequence number 4 of group 'world', on "
                                              "rank {}: ",
                                              rank)));
      EXPECT_THAT(text, HasSubstr(fmt::format("rank {} is lost", dead)));
      EXPECT_THAT(thrown_text<peer_lost>([&] { first.wait(); }),
                  HasSubstr("all_reduce, sequence number 2 of group 'world'"));
      EXPECT_THAT(thrown_text<peer_lost>([&] { second.wait(); }),
                  HasSubstr("barrier, sequence number 3 of group 'world'"));
      EXPECT_THAT(thrown_text<peer_lost>([&] { letter.wait(); }),
                  HasSubstr("recv of group 'world'"));
      EXPECT_THAT(thrown_text<group_failed>([&] { barrier(world); }),
                  HasSubstr("takes no more operations"));
      known = std::max(known, cluster.now());

      // Survivors go on.
      const auto left = world.shrink({static_cast<int>(dead)}, GetParam() % 2 == 0);
      EXPECT_EQ(left.size(), 3);
      EXPECT_EQ(left.completed_before(), 1u);
      EXPECT_EQ(here.world(), left);
      EXPECT_EQ(left.global_rank(left.rank()), here.rank());
      const auto x = at::ones({20'000}, at::kInt);
      all_reduce(left, x);
      EXPECT_EQ(x[7].item<int>(), 3);
    } catch (const not_initialized&) {
      EXPECT_EQ(static_cast<std::uint32_t>(rank), dead);
    }
  });
  killer.get();
}

TEST_P(group_failures, of_a_late_rank_name_it_on_every_rank) {
  simulation cluster(seeded(GetParam()));
  const auto nodes = cluster.start(4);
  on_simulated(cluster, nodes, [&](const node& here, int rank) {
    const auto group = here.world().new_group({0, 1, 2, 3}, {.timeout = 2s});
    barrier(group);
    if (rank == 2) {
      cluster.sleep(10s);
      EXPECT_THAT(thrown_text<group_failed>([&] { barrier(group); }),
                  HasSubstr("timed out after 2000 ms: rank 2 is missing"));
      return;
    }
    // The others enter at different times, and hear of the first that gives up.
    cluster.sleep(std::chrono::milliseconds(100 * rank));
    const auto before = cluster.now();
    const auto text = thrown_text<collective_timeout>([&] { all_reduce(group, at::ones({1})); });
    EXPECT_LE(cluster.now() - before, 2100ms);
    EXPECT_THAT(text, HasSubstr("timed out after 2000 ms: rank 2 is missing"));
    EXPECT_THAT(text, HasSubstr(fmt::format("all_reduce, sequence number 2 of group "
                                            "'world/0,1,2,3#0', on rank {}",
                                            rank)));
  });
}

TEST_P(group_failures, of_an_abort_reach_every_rank) {
  simulation cluster(seeded(GetParam()));
  const auto nodes = cluster.start(3);
  on_simulated(cluster, nodes, [&](const node& here, int rank) {
    const auto world = here.world();
    barrier(world);
    if (rank == 0) {
      cluster.sleep(20ms);
      world.abort();
      EXPECT_THROW(barrier(world), group_failed);
      return;
    }
    const auto before = cluster.now();
    EXPECT_THAT(thrown_text<group_failed>([&] { all_reduce(world, at::ones({1})); }),
                HasSubstr("rank 0 has reported: group 'world' was aborted on rank 0"));
    EXPECT_LE(cluster.now() - before, 120ms);
  });
}

TEST_P(group_failures, are_the_same_under_the_same_seed) {
  const auto run = [&] {
    simulation cluster(seeded(GetParam()));
    const auto nodes = cluster.start(3);
    on_simulated(cluster, nodes, [&](const node& here, int rank) {
      for (int i = 0; i < 5; ++i) {
        auto x = at::full({500}, rank + i, at::kFloat);
        all_reduce(here.world(), x, async).wait();
        broadcast(here.world(), x, i % 3);
      }
    });
    return cluster.steps();
  };
  EXPECT_EQ(run(), run());
}

}  // namespace
}  // namespace troupe::test
