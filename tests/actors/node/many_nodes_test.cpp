// Many nodes in one process: none is taken for another, and all reach all.
#include <set>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {
namespace {

class many_nodes : public on_networks {};
TROUPE_ON_NETWORKS(many_nodes);

std::string describe_sum(int a, int b) { return this_node().name() + " " + std::to_string(a + b); }

std::vector<std::string> names(int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back("n" + std::to_string(i));
  return out;
}

TEST_P(many_nodes, eight_all_call_all_at_once) {
  auto nodes = start(names(8));
  std::atomic<int> right{0};
  all_at_once(nodes, [&](node& n) {
    for (int round = 0; round < 10; ++round) {
      std::vector<future<std::string>> all;
      for (int to = 0; to < 8; ++to) all.push_back(n.rpc_async<&describe_sum>(to, round, to));
      for (int to = 0; to < 8; ++to)
        right += all[to].get() == "n" + std::to_string(to) + " " + std::to_string(round + to);
    }
  });
  EXPECT_EQ(right, 8 * 8 * 10);
  shut_down(nodes);
}

TEST_P(many_nodes, eight_share_their_actors) {
  auto nodes = start(names(8));
  std::vector<counter> all;
  for (int i = 0; i < 8; ++i) all.push_back(nodes[0].spawn_on<count_from>(i, 0));
  auto keepers = all;
  all_at_once(nodes, [&](node& n) {
    std::vector<counter> own;
    for (int i = 0; i < 8; ++i) own.push_back(n.spawn_on<count_from>((n.rank() + i) % 8, i));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(request(own[i], add{1}).get(), i + 1);
  });
  for (auto& one : all) EXPECT_EQ(request(one, add{1}).get(), 1);
  shut_down(nodes);
}

TEST(many_systems, of_a_thousand_all_handles_differ) {
  std::set<std::pair<std::string, caf::actor_id>> seen;
  std::set<std::string> systems;
  for (int group = 0; group < 50; ++group) {
    auto nodes = local_nodes(names(20));
    std::vector<counter> handles;
    for (auto& n : nodes) {
      handles.push_back(n.spawn(count_from, 0));
      const auto& made = handles.back();
      EXPECT_TRUE(made.node());
      systems.insert(to_string(made.node()));
      EXPECT_TRUE(seen.emplace(to_string(made.node()), made.id()).second);
    }
    for (std::size_t i = 0; i < handles.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(handles[i], handles[j]);
  }
  EXPECT_EQ(systems.size(), 1000u);
  EXPECT_EQ(seen.size(), 1000u);
}

}  // namespace
}  // namespace troupe::test
