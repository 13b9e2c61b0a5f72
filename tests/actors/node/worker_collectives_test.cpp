// Barriers of nodes, and what nodes gather from one another, by calls.
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

struct gathered_report {
  std::string from;
  std::vector<double> losses;
  at::Tensor weights;
};
TROUPE_MESSAGE(gathered_report, from, losses, weights)

namespace {

class worker_collectives : public on_networks {
protected:
  /// What the call on `one` throws.
  template <class Error, class F>
  static std::future<std::string> error_of(const node& one, F f) {
    return std::async(std::launch::async,
                      [one, f] { return fault_of<Error>([&] { f(one); }).text; });
  }

  /// Has the first one come to the leader?
  static bool has_come(const node& leader) {
    return eventually([&] { return leader.debug_info().calls_served == 1; });
  }
};
TROUPE_ON_NETWORKS(worker_collectives);

TEST_P(worker_collectives, a_barrier_waits_for_all) {
  auto nodes = start({"a", "b", "c"});
  std::atomic<int> before{0};
  for (int round = 1; round <= 5; ++round)
    all_at_once(nodes, [&](node& one) {
      ++before;
      one.barrier({"c", "b", "a"}, timeout(time_limit));
      EXPECT_GE(before, 3 * round);
    });
  // Without names: all members.
  all_at_once(nodes, [](node& one) { one.barrier(); });
  shut_down(nodes);
}

TEST_P(worker_collectives, objects_of_any_type_are_gathered_by_name) {
  auto nodes = start({"a", "b", "c"});
  all_at_once(nodes, [&](node& one) {
    const auto rank = one.rank();
    EXPECT_EQ(one.all_gather({"a", "b", "c"}, one.name() + "!"),
              (std::map<std::string, std::string>{{"a", "a!"}, {"b", "b!"}, {"c", "c!"}}));
    const auto tensors = one.all_gather({}, at::full({64, 64}, double(rank)));
    ASSERT_EQ(tensors.size(), 3u);
    for (std::uint32_t other = 0; other < 3; ++other)
      EXPECT_TRUE(at::equal(tensors.at(nodes[other].name()), at::full({64, 64}, double(other))));
    const auto reports = one.all_gather(
        {}, gathered_report{one.name(), {1.0 * rank, 2.0}, at::full({3}, double(rank))});
    EXPECT_EQ(reports.at("b").from, "b");
    EXPECT_EQ(reports.at("c").losses, (std::vector<double>{2.0, 2.0}));
    EXPECT_TRUE(at::equal(reports.at("c").weights, at::full({3}, 2.0)));
    const auto references = one.all_gather({}, one.make_rref(int(rank) * 10));
    EXPECT_EQ(references.at("c").to_here(), 20);
    one.barrier();  // until all have read
  });
  shut_down(nodes);
}

TEST_P(worker_collectives, sets_of_names_do_not_disturb_one_another) {
  auto nodes = start({"a", "b", "c", "d"});
  // d and a as often as they like, whatever the others do.
  std::vector<node> two{nodes[0], nodes[3]};
  for (int round = 0; round < 3; ++round)
    all_at_once(two, [&](node& one) {
      EXPECT_EQ(one.all_gather({"a", "d"}, one.rank()),
                (std::map<std::string, std::uint32_t>{{"a", 0}, {"d", 3}}));
    });
  // One thread in each of two sets that have nodes in common.
  all_at_once(nodes, [](node& one) {
    auto three = one.name() == "d" ? std::future<void>() : std::async(std::launch::async, [one] {
      EXPECT_EQ(one.all_gather({"a", "b", "c"}, 1).size(), 3u);
    });
    EXPECT_EQ(one.all_gather({"a", "b", "c", "d"}, 1).size(), 4u);
    if (three.valid()) three.get();
  });
  // One alone.
  EXPECT_EQ(nodes[1].all_gather({"b", "b"}, 7), (std::map<std::string, int>{{"b", 7}}));
  shut_down(nodes);
}

TEST_P(worker_collectives, three_threads_of_each_node_at_once) {
  constexpr int threads = 3;
  constexpr int rounds = 20;
  auto nodes = start({"a", "b", "c"});
  using result = std::map<std::string, int>;
  std::vector<std::vector<result>> of_node(nodes.size());
  all_at_once(nodes, [&](node& one) {
    std::mutex mutex;
    auto& all = of_node[one.rank()];
    std::vector<int> mine(threads);
    std::iota(mine.begin(), mine.end(), 0);
    all_at_once(mine, [&](int thread) {
      for (int round = 0; round < rounds; ++round) {
        one.barrier({"a", "b", "c"}, timeout(time_limit));
        const auto got = one.all_gather({"a", "b", "c"}, thread * rounds + round);
        const std::lock_guard lock(mutex);
        all.push_back(got);
      }
    });
    std::ranges::sort(all);
  });
  // All nodes have seen the same, and each object once.
  EXPECT_EQ(of_node[1], of_node[0]);
  EXPECT_EQ(of_node[2], of_node[0]);
  for (const auto* name : {"a", "b", "c"}) {
    std::vector<int> seen;
    for (const auto& one : of_node[0]) seen.push_back(one.at(name));
    std::ranges::sort(seen);
    std::vector<int> each(threads * rounds);
    std::iota(each.begin(), each.end(), 0);
    EXPECT_EQ(seen, each) << name;
  }
  shut_down(nodes);
}

TEST_P(worker_collectives, followers_that_do_not_come_are_named_to_all) {
  auto nodes = start({"a", "b", "c", "d"});
  const auto call = [](const node& one) { one.all_gather({}, 1, timeout(200ms)); };
  auto leader = error_of<rpc_timeout>(
      nodes[0], [](const node& one) { one.all_gather({}, 1, timeout(time_limit)); });
  EXPECT_TRUE(has_come(nodes[0]));
  auto follower = error_of<rpc_timeout>(nodes[1], call);
  const auto text = "Followers [c, d] timed out in _all_gather after 0.20 seconds";
  EXPECT_EQ(leader.get(), text);
  EXPECT_EQ(follower.get(), text);
  // Those who are late are told, and the next one is complete.
  EXPECT_EQ(error_of<rpc_timeout>(nodes[3], call).get(), text);
  EXPECT_EQ(error_of<rpc_timeout>(nodes[2], call).get(), text);
  all_at_once(nodes, [](node& one) { EXPECT_EQ(one.all_gather({}, 1).size(), 4u); });
  shut_down(nodes);
}

TEST_P(worker_collectives, a_leader_that_does_not_come_is_named) {
  auto nodes = start({"a", "b", "c"});
  EXPECT_EQ(fault_of<rpc_timeout>([&] {
              nodes[1].barrier({"a", "b"}, timeout(50ms));
            }).text,
            "Leader a timed out in _barrier after 0.05 seconds");
  const auto error = fault_of<rpc_timeout>([&] { nodes[1].barrier({}, timeout(50ms)); });
  EXPECT_EQ(error.text, "Leader a and followers [c] timed out in _barrier after 0.05 seconds");
  EXPECT_EQ(error.node, "a");
  EXPECT_EQ(error.limit, 50ms);
  shut_down(nodes);
}

TEST_P(worker_collectives, the_shortest_limit_ends_it_for_all) {
  rpc_options options;
  options.rpc_timeout = 60ms;
  auto nodes = start({"a", "b", "c"}, options);
  const auto text = "Followers [c] timed out in _barrier after 0.06 seconds";
  auto leader = error_of<rpc_timeout>(
      nodes[0], [](const node& one) { one.barrier({}, timeout(time_limit)); });
  EXPECT_TRUE(has_come(nodes[0]));
  EXPECT_EQ(error_of<rpc_timeout>(nodes[1], [](const node& one) { one.barrier(); }).get(), text);
  EXPECT_EQ(leader.get(), text);
  shut_down(nodes);
}

TEST_P(worker_collectives, a_node_that_is_lost_before_it_comes_ends_them) {
  auto nodes = start({"z", "a", "b"});
  const auto call = [](const node& one) { one.barrier({"a", "b", "z"}, timeout(0ms)); };
  auto leader = error_of<peer_lost>(nodes[1], call);
  EXPECT_TRUE(has_come(nodes[1]));
  auto follower = error_of<peer_lost>(nodes[0], call);
  nodes[2].leave();
  EXPECT_THAT(leader.get(), testing::HasSubstr("'b'"));
  EXPECT_THAT(follower.get(), testing::HasSubstr("'b'"));
  // And if the leader goes.
  auto waits = error_of<peer_lost>(nodes[0], [](const node& one) {
    one.barrier({"a", "z"}, timeout(0ms));
  });
  nodes[1].leave();
  EXPECT_THAT(waits.get(), testing::HasSubstr("'a'"));
  nodes.erase(nodes.begin() + 1, nodes.end());
  shut_down(nodes);
}

TEST_P(worker_collectives, wrong_names_and_types_are_refused) {
  auto nodes = start({"a", "b", "c"});
  EXPECT_EQ(fault_of<invalid_argument>([&] {
              nodes[0].barrier({"c", "b"});
            }).text,
            "a cannot call _barrier of [b, c]: add its name");
  EXPECT_THROW(nodes[0].barrier({"a", "nobody"}), unknown_worker);
  std::vector<node> two{nodes[0], nodes[1]};
  all_at_once(two, [&](node& one) {
    const auto call = [&] {
      one.rank() == 0 ? void(one.all_gather({"a", "b"}, 1))
                      : void(one.all_gather({"a", "b"}, std::string("1")));
    };
    EXPECT_THAT(fault_of<type_mismatch>(call).text,
                testing::HasSubstr("of another type than those who came before"));
  });
  shut_down(nodes);
}

TEST_P(worker_collectives, functions_of_nodes_may_wait_in_them) {
  auto nodes = start({"a", "b", "c"});
  std::vector<future<std::size_t>> all;
  for (const auto& to : {"a", "b", "c"})
    all.push_back(nodes[0].rpc_async(to, [] { return this_node().all_gather({}, 1).size(); }));
  for (const auto& one : all) EXPECT_EQ(one.get(), 3u);
  shut_down(nodes);
}

TEST(worker_collectives_names, an_alias_is_another_name_of_a_node) {
  rpc_options options;
  options.aliases = {"ps"};
  auto nodes = make_nodes(network::tcp, {"a"}, options);
  EXPECT_EQ(nodes[0].all_gather({"ps", "a"}, 7), (std::map<std::string, int>{{"a", 7}}));
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
