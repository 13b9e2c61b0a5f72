// Contexts whose nodes crash or are cut off from each other, on a simulated network.

#include <torch/csrc/autograd/custom_function.h>

#include <troupe/simulation.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"

namespace troupe::test {
namespace {

using autograd::context;

at::Tensor twice_at(const at::Tensor& x, const std::string& whom) {
  return this_node().rpc_sync<&twice>(whom, 2 * x);
}

// A test opens it, so that a handler or a hook goes on. In a simulation only futures may be waited
// for, so the door of job.hpp cannot be used.
struct door {
  promise<void> key;
  future<void> opened = key.get_future();
};
std::unique_ptr<door> before_call, in_backward;

at::Tensor twice_at_later(const at::Tensor& x, const std::string& whom) {
  before_call->opened.get();
  return twice_at(x, whom);
}

struct waits_on_its_way_back : torch::autograd::Function<waits_on_its_way_back> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    in_backward->opened.get();
    return gradients;
  }
};
at::Tensor waits(const at::Tensor& x) { return waits_on_its_way_back::apply(x); }
at::Tensor waits_at(const at::Tensor& x, const std::string& whom) {
  return this_node().rpc_sync<&waits>(whom, x);
}

void go_back(const at::Tensor& root) {
  autograd::backward(this_node(), autograd::current_context(), {root.sum()});
}

class contexts_under_faults : public testing::Test {
protected:
  // A node that has crashed is lost to the others within twice the limit.
  static simulation_options network(std::uint64_t seed, std::chrono::milliseconds limit) {
    simulation_options how{.seed = seed};
    how.network.limit = limit;
    how.node.hang_limit = 0ms;
    how.node.rpc_timeout = 600s;
    return how;
  }

  contexts_under_faults() {
    before_call = std::make_unique<door>();
    in_backward = std::make_unique<door>();
  }

  static bool is_over(simulation& cluster, const std::vector<node>& nodes,
                      const std::set<std::uint32_t>& crashed, std::chrono::nanoseconds limit) {
    return cluster.wait_until(
        [&] {
          for (const auto& n : nodes) {
            if (crashed.contains(n.rank())) continue;
            const auto left = n.debug_info();
            if (left.autograd_contexts + left.backward_passes + left.calls_in_flight != 0)
              return false;
          }
          return true;
        },
        limit);
  }
};

TEST_F(contexts_under_faults, end_after_a_while_if_asked) {
  simulation cluster(network(1, 60s));
  const auto nodes = cluster.start(2);
  const context c(nodes[0], {.timeout = 50ms});
  const auto x = leaf(2);
  const auto y = nodes[0].rpc_sync<&twice>("worker1", x);
  cluster.sleep(40ms);
  EXPECT_EQ(nodes[0].debug_info().autograd_contexts, 1u);
  EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 1u);
  EXPECT_TRUE(is_over(cluster, nodes, {}, 20ms));
  EXPECT_THROW(c.backward({y.sum()}), unknown_context);
}

// worker2 has not been notified of the end and calls worker1, which has.
TEST_F(contexts_under_faults, a_node_that_has_ended_it_refuses_calls_of_those_that_have_not) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    simulation cluster(network(seed, 60s));
    const auto nodes = cluster.start(3);
    std::string answer, node;
    const auto program = cluster.spawn([&] {
      std::optional<context> c(nodes[0]);
      const auto x = leaf(2);
      nodes[0].rpc_sync<&twice>("worker1", x);
      const auto late = nodes[0].rpc_async<&twice_at_later>("worker2", x, "worker1");
      EXPECT_TRUE(
          cluster.wait_until([&] { return nodes[2].debug_info().autograd_contexts == 1; }, 1s));
      cluster.network().cut(0, 2);
      c.reset();
      EXPECT_TRUE(
          cluster.wait_until([&] { return nodes[1].debug_info().autograd_contexts == 0; }, 1s));
      EXPECT_EQ(nodes[2].debug_info().autograd_contexts, 1u);
      before_call->key.set_value();
      try {
        late.get();
      } catch (const error& e) {
        answer = e.what();
        node = e.node();
      }
      EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 0u);
      EXPECT_EQ(nodes[2].debug_info().autograd_contexts, 1u);
      cluster.network().restore(0, 2);
    });
    program.get();
    EXPECT_THAT(answer, testing::HasSubstr("Could not find autograd context with id"));
    EXPECT_THAT(answer, testing::HasSubstr("its scope has ended"));
    EXPECT_EQ(node, "worker1");
    EXPECT_TRUE(is_over(cluster, nodes, {}, 10s)) << seed;
    before_call = std::make_unique<door>();
  }
}

// worker1 opens it and crashes at some moment of a chain of calls, or of the pass.
TEST_F(contexts_under_faults, of_an_opener_that_crashes_end_on_all_others) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    simulation cluster(network(seed, 1s));
    const auto nodes = cluster.start(4);
    auto working = cluster.spawn([&] {
      try {
        for (;;) {
          const context c(nodes[1]);
          const auto x = leaf(2);
          const auto y = nodes[1].rpc_sync<&twice_at>("worker0", x, "worker3");
          const auto z = nodes[1].rpc_sync<&twice_at>("worker2", y, "worker0");
          c.backward({z.sum()});
        }
      } catch (const error&) {
      }
    });
    // It computes with rank 0 at first, so all have begun by then.
    EXPECT_TRUE(
        cluster.wait_until([&] { return nodes[3].debug_info().autograd_contexts == 1; }, 1s));
    cluster.sleep(std::chrono::nanoseconds(cluster.random(300'000)));
    cluster.crash(1);
    working.get();
    EXPECT_TRUE(is_over(cluster, nodes, {1}, 3s)) << seed;
    // The others go on.
    const auto after = cluster.spawn([&] {
      const context c(nodes[2]);
      const auto x = leaf(2);
      c.backward({nodes[2].rpc_sync<&twice_at>("worker3", x, "worker0").sum()});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(4)));
    });
    after.get();
    EXPECT_TRUE(is_over(cluster, nodes, {1}, 1s)) << seed;
  }
}

// worker2 has the context from worker1, which crashes: the opener does not know worker2.
TEST_F(contexts_under_faults, end_beyond_a_node_that_crashes) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    simulation cluster(network(seed, 1s));
    const auto nodes = cluster.start(3);
    const auto after = cluster.random(2'500'000'000);
    auto working = cluster.spawn([&] {
      const context c(nodes[0]);
      const auto x = leaf(2);
      const auto y = nodes[0].rpc_sync<&twice_at>("worker1", x, "worker2");
      cluster.sleep(std::chrono::nanoseconds(after));  // its scope ends before the loss, or after
    });
    EXPECT_TRUE(
        cluster.wait_until([&] { return nodes[2].debug_info().autograd_contexts == 1; }, 1s));
    cluster.sleep(std::chrono::nanoseconds(cluster.random(300'000)));
    cluster.crash(1);
    try {
      working.get();
    } catch (const peer_lost&) {  // before the call had returned
    }
    EXPECT_TRUE(is_over(cluster, nodes, {1}, 5s)) << seed;
  }
}

// It has received the gradients and sends nothing any more.
TEST_F(contexts_under_faults, a_node_that_crashes_during_a_pass_fails_that_pass_within_the_limit) {
  simulation cluster(network(7, 1s));
  const auto nodes = cluster.start(3);
  const auto program = cluster.spawn([&] {
    const auto x = leaf(2);
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&waits_at>("worker1", x, "worker2");
    const auto z = nodes[0].rpc_sync<&twice>("worker1", x);
    const auto pass = c.backward_async({y.sum() + z.sum()}, {.retain_graph = true});
    EXPECT_TRUE(cluster.wait_until([&] { return nodes[2].debug_info().backward_passes == 1; }, 1s));
    const auto before = cluster.now();
    cluster.crash(2);
    try {
      pass.get();
      ADD_FAILURE() << "a pass through a node that has crashed";
    } catch (const peer_lost& e) {
      EXPECT_EQ(e.node(), "worker2");
    }
    EXPECT_LT(cluster.now() - before, 2s);
    EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].debug_info().backward_passes == 0; }, 1s));
    c.backward({z.sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2)));
  });
  program.get();
  EXPECT_TRUE(is_over(cluster, nodes, {2}, 1s));
}

// It begins a pass of the same context as the node did that had its rank, after as many calls; the
// others have not ended that one.
TEST_F(contexts_under_faults, passes_of_a_rank_that_comes_back_are_others) {
  simulation cluster(network(3, 1s));
  auto nodes = cluster.start(3);
  const auto program = cluster.spawn([&] {
    const auto x = leaf(2);
    const context c(nodes[0]);
    const auto begin = [&] {
      const auto y = nodes[0].rpc_sync<&waits>("worker1", x);
      return nodes[0].rpc_async<&go_back>("worker2", y);
    };
    const auto first = begin();
    EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].debug_info().backward_passes == 1; }, 1s));
    cluster.crash(2);
    EXPECT_THROW(first.get(), peer_lost);
    nodes[2] = cluster.join("worker2", 2);
    const auto second = begin();
    cluster.sleep(1ms);
    in_backward->key.set_value();
    second.get();
    EXPECT_TRUE(c.get_gradients().contains(x));
  });
  program.get();
  EXPECT_TRUE(is_over(cluster, nodes, {}, 3s));
}

}  // namespace
}  // namespace troupe::test
