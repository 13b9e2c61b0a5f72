// The programs of random_distributed_graphs_test on a network that loses, doubles, delays and
// reorders, as the seed decides. TROUPE_SEED=n runs that one alone and prints what happens;
// TROUPE_SEEDS=n runs so many.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <troupe/simulation.hpp>

#include "tests/autograd/graphs/graph_check.hpp"
#include "tests/autograd/graphs/graph_seeds.hpp"
#include "tests/bad_network.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

simulation_options bad_network(std::uint64_t seed) {
  simulation_options how;
  how.seed = seed;
  random_source choose(seed);
  draw_bad_links(how, choose, 0.8);
  draw_window(how, choose);
  // All nodes are well, however long a message takes.
  how.network.limit = 60s;
  how.node.hang_limit = 0ms;
  how.node.rpc_timeout = 600s;
  return how;
}

struct simulated {
  complaints wrong;
  std::vector<std::string> story;  // every message
  std::uint64_t steps = 0;
  transport::datagram_counters datagrams;
};

simulated simulate(std::uint64_t seed) {
  const auto one = make_case(seed);
  simulated out;
  auto network = bad_network(seed);
  network.trace = [&](const std::string& line) { out.story.push_back(line); };
  simulation cluster(network);
  const auto nodes = cluster.start(one.program.nodes);
  // In a thread of its own: libtorch counts what a thread records, and goes by the count.
  const auto program = cluster.spawn([&] {
    out.wrong = check_case(
        nodes, one, [&](const auto& condition) { return cluster.wait_until(condition, 70s); });
  });
  program.get();
  std::vector<future<void>> ends;
  for (const auto& n : nodes) ends.push_back(cluster.spawn([n] { n.shutdown(true, 60s); }));
  for (const auto& end : ends) end.get();
  out.steps = cluster.steps();
  out.datagrams = cluster.network().count();
  return out;
}

TEST(simulated_graphs, have_the_gradients_of_one_thread) {
  const bool alone = std::getenv("TROUPE_SEED");
  std::uint64_t runs = 0, lost = 0, doubled = 0, reordered = 0;
  for_seeds("random_graphs_simulation_test", 300, [&](std::uint64_t seed) {
    const auto run = simulate(seed);
    if (alone)
      for (const auto& line : run.story) std::cout << line << '\n';
    ++runs;
    lost += run.datagrams.lost;
    doubled += run.datagrams.doubled;
    reordered += run.datagrams.reordered;
    return run.wrong;
  });
  std::cout << lost << " datagrams lost, " << doubled << " doubled, " << reordered
            << " reordered\n";
  if (alone) return;
  for (const auto times : {lost, doubled, reordered}) EXPECT_GT(times, 10 * runs);
}

TEST(simulated_graphs, do_the_same_with_the_same_seed) {
  for_seeds("random_graphs_simulation_test", 20, [](std::uint64_t seed) {
    const auto first = simulate(seed), second = simulate(seed);
    EXPECT_GT(first.story.size(), 20u);
    complaints wrong;
    const auto [a, b] = std::mismatch(first.story.begin(), first.story.end(), second.story.begin(),
                                      second.story.end());
    if (a != first.story.end()) wrong.push_back("only the first time: " + *a);
    if (b != second.story.end()) wrong.push_back("only the second time: " + *b);
    if (first.steps != second.steps) wrong.push_back("another number of steps");
    return wrong;
  });
}

}  // namespace
}  // namespace troupe::test
