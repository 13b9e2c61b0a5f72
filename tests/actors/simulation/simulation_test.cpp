// Many nodes on a network under a seed: what runs is a function of the seed.

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "troupe/actors/simulation/simulation.hpp"

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct bytes_to_read {
  at::Tensor bytes;
};
TROUPE_MESSAGE(bytes_to_read, bytes)

namespace {

int twice(int x) { return 2 * x; }

// Blocks in its handler for an answer of the next rank, and that one for the next.
int around(int hops) {
  const auto here = this_node();
  if (hops == 0) return static_cast<int>(here.rank());
  return here.rpc_sync<&around>((here.rank() + 1) % here.world_size(), hops - 1);
}

TEST(simulation, carries_calls_and_takes_no_real_time) {
  simulation cluster({.seed = 1});
  const auto nodes = cluster.start(3);
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("worker2", 21), 42);
  const auto before = cluster.now();
  cluster.sleep(20min);
  EXPECT_EQ(cluster.now() - before, 20min);
  const auto there = nodes[1].spawn_on<count_from>("worker2", 10);
  EXPECT_EQ(request(there, add{5}).get(), 15);
}

TEST(simulation, lets_handlers_block) {
  simulation cluster({.seed = 2});
  const auto nodes = cluster.start(4);
  EXPECT_EQ(nodes[0].rpc_sync<&around>(1, 40), 1);
  std::vector<future<int>> all;
  for (int i = 0; i < 8; ++i) all.push_back(nodes[i % 4].rpc_async<&around>((i + 1) % 4, 5 + i));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(all[i].get(), (i + 1 + 5 + i) % 4);
}

TEST(simulation, shuts_down_gracefully) {
  simulation cluster({.seed = 3});
  const auto nodes = cluster.start(3);
  std::vector<future<void>> ends;
  for (const auto& n : nodes) ends.push_back(cluster.spawn([n] { n.shutdown(); }));
  for (auto& end : ends) end.get();
  EXPECT_THROW(nodes[0].rpc_sync<&twice>(1, 1), not_initialized);
}

TEST(simulation, ends_what_waits_for_a_crashed_node) {
  simulation cluster({.seed = 4});
  const auto nodes = cluster.start(3);
  const auto there = nodes[0].spawn_on<count_from>("worker2", 10);
  EXPECT_EQ(request(there, add{5}).get(), 15);
  cluster.crash(2);
  EXPECT_THROW(nodes[0].rpc_sync<&twice>("worker2", 21), peer_lost);
  EXPECT_THROW(request(there, add{5}).get(), peer_lost);
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("worker1", 21), 42);
  EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].world_size() == 2; }, 1s));
}

int taken_in = 0;

using bytes_reader = actor<accepts<bytes_to_read>>;

bytes_reader::behavior_type read_bytes() {
  return {[](const bytes_to_read&) { ++taken_in; }};
}

// The job comes to rest when all has arrived, also when somebody has gone before.
TEST(simulation, shuts_down_gracefully_after_a_loss) {
  simulation_options slow{.seed = 3};
  slow.network.links.bandwidth = 1e6;
  simulation cluster(slow);
  auto nodes = cluster.start(3);
  taken_in = 0;
  cluster.crash(2);
  ASSERT_TRUE(cluster.wait_until(
      [&] { return nodes[0].world_size() == 2 && nodes[1].world_size() == 2; }, 100s));
  const auto reader = nodes[0].spawn_on<read_bytes>(1);
  send(reader, bytes_to_read{at::zeros({10'000'000}, at::kByte)});
  std::vector<future<void>> ends;
  for (const int rank : {0, 1}) ends.push_back(cluster.spawn([n = nodes[rank]] { n.shutdown(); }));
  for (auto& end : ends) end.get();
  EXPECT_EQ(taken_in, 1);
}

TEST(simulation, lets_nodes_join_leave_and_come_back) {
  simulation cluster({.seed = 6});
  auto nodes = cluster.start(3);
  const auto late = cluster.join("late");
  EXPECT_EQ(late.rank(), 3u);
  EXPECT_EQ(late.rpc_sync<&twice>("worker1", 4), 8);
  EXPECT_EQ(nodes[1].rpc_sync<&twice>("late", 5), 10);
  EXPECT_EQ(late.world_size(), 4u);
  const auto there = late.spawn_on<count_from>("worker2", 10);
  EXPECT_EQ(request(there, add{5}).get(), 15);
  cluster.crash(2);
  EXPECT_TRUE(cluster.wait_until([&] { return late.world_size() == 3; }, 1s));
  EXPECT_THROW(request(there, add{5}).get(), peer_lost);
  nodes[2] = cluster.join("worker2", 2);
  EXPECT_EQ(nodes[0].rpc_sync<&twice>("worker2", 6), 12);
  EXPECT_THROW(request(there, add{5}).get(), peer_lost);
  late.leave();
  EXPECT_TRUE(cluster.wait_until([&] { return nodes[2].world_size() == 3; }, 1s));
  EXPECT_THROW(nodes[0].rpc_sync<&twice>("late", 6), peer_lost);
}

TEST(simulation, traces_every_message_and_repeats_itself) {
  std::vector<std::string> stories[3];
  const std::uint64_t seeds[] = {8, 8, 9};
  for (int run = 0; run < 3; ++run) {
    simulation_options options{.seed = seeds[run]};
    options.network.links.loss = 0.1;
    options.trace = [&](const std::string& line) { stories[run].push_back(line); };
    simulation cluster(options);
    const auto nodes = cluster.start(3);
    std::vector<future<int>> all;
    for (int i = 0; i < 10; ++i) all.push_back(nodes[0].rpc_async<&around>(1, i));
    for (auto& one : all) one.get();
    cluster.crash(2);
    EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].world_size() == 2; }, 1s));
  }
  EXPECT_EQ(stories[0], stories[1]);
  EXPECT_NE(stories[0], stories[2]);
  EXPECT_THAT(stories[0], testing::Contains(testing::AllOf(
                              testing::HasSubstr("rank 0 > rank 1: call of"),
                              testing::HasSubstr("around"), testing::HasSubstr("epoch 0"))));
  EXPECT_THAT(stories[0], testing::Contains(testing::HasSubstr("membership")));
}

// A ring of calls through all of them, each blocking in its handler for the next one's answer.
TEST(simulation, runs_a_thousand_nodes) {
  simulation cluster({.seed = 10});
  const auto nodes = cluster.start(1'000);
  std::vector<future<int>> all;
  for (std::uint32_t i = 0; i < 1'000; ++i)
    all.push_back(nodes[i].rpc_async<&around>((i + 1) % 1'000, 3));
  for (std::uint32_t i = 0; i < 1'000; ++i)
    EXPECT_EQ(all[i].get(), static_cast<int>((i + 4) % 1'000));
  cluster.crash(500);
  EXPECT_TRUE(cluster.wait_until(
      [&] {
        return std::all_of(nodes.begin(), nodes.end(),
                           [](const node& n) { return n.rank() == 500 || n.world_size() == 999; });
      },
      10s));
}

TEST(simulation, reports_when_nothing_can_happen_any_more) {
  simulation_options options{.seed = 5};
  options.node.hang_limit = 0ms;
  simulation cluster(options);
  const auto nodes = cluster.start(2);
  promise<int> never_kept;
  auto answer = never_kept.get_future();
  EXPECT_THROW(answer.get(), deadlock_error);
}

}  // namespace

}  // namespace troupe::test
