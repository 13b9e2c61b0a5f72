// What a context has recorded on each node, seen as torch's own tests see it: the functions that
// stand for messages, where they lead, and which members a node knows.

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/types.h>

#include <troupe/autograd.hpp>

#include "tests/autograd/context/no_contexts.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::recorded_graph;
using testing::ElementsAre;
using function = std::shared_ptr<const torch::autograd::Node>;

class recorded_graphs : public on_networks {};
TROUPE_ON_NETWORKS(recorded_graphs);

at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return a + b; }
// Each on the way passes both on, and the answer back; the last one adds.
at::Tensor add_along(const at::Tensor& a, const at::Tensor& b,
                     const std::vector<std::uint32_t>& way) {
  if (way.empty()) return a + b;
  const std::vector<std::uint32_t> rest(way.begin() + 1, way.end());
  return this_node().rpc_sync<&add_along>(way.front(), a, b, rest);
}
at::Tensor leaf() { return torch::ones({3, 3}, torch::requires_grad()); }

// Where the edges of a function lead.
std::vector<function> after(const function& one) {
  std::vector<function> out;
  for (const auto& edge : one->next_edges()) out.push_back(edge.function);
  return out;
}
at::Tensor leaf_of(const function& one) {
  const auto* node = dynamic_cast<const torch::autograd::AccumulateGrad*>(one.get());
  return node ? node->variable : at::Tensor();
}

bool has(const recorded_graph::functions& all, const function& one) {
  for (const auto& [key, each] : all)
    if (each == one) return true;
  return false;
}

// The only one of messages to, or from, that worker.
function only(const recorded_graph::functions& all, std::uint32_t worker) {
  function found;
  int count = 0;
  for (const auto& [key, one] : all)
    if (key.worker == worker) found = one, ++count;
  EXPECT_EQ(count, 1) << "messages to or from rank " << worker;
  return found;
}

// As the opener's: it has sent both leaves, and received the sum.
void expect_asked(const recorded_graph& graph, std::uint32_t whom, const at::Tensor& a,
                  const at::Tensor& b, const at::Tensor& sum) {
  const auto sent = only(graph.sends, whom);
  ASSERT_TRUE(sent);
  const auto next = after(sent);
  ASSERT_EQ(next.size(), 2u);
  EXPECT_TRUE(leaf_of(next[0]).is_same(a));
  EXPECT_TRUE(leaf_of(next[1]).is_same(b));
  const auto received = only(graph.receives, whom);
  EXPECT_EQ(received, sum.grad_fn());
  EXPECT_TRUE(after(received).empty());
}

// Has added what it has received.
void expect_added(const recorded_graph& graph, std::uint32_t asker) {
  const auto sent = only(graph.sends, asker);
  ASSERT_TRUE(sent);
  const auto sum = after(sent);
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_EQ(sum[0]->name(), "AddBackward0");
  const auto received = only(graph.receives, asker);
  EXPECT_THAT(after(sum[0]), ElementsAre(received, received));
}

// Has passed on what it has received, and then what has come back.
void expect_passed_on(const recorded_graph& graph, std::uint32_t asker, std::uint32_t asked) {
  const auto question = only(graph.sends, asked), answer = only(graph.sends, asker);
  ASSERT_TRUE(question && answer);
  const auto received = only(graph.receives, asker), back = only(graph.receives, asked);
  EXPECT_THAT(after(question), ElementsAre(received, received));
  EXPECT_THAT(after(answer), ElementsAre(back));
}

// A message has the same number at both ends, and there is none with one end only.
void expect_pairs(const std::vector<recorded_graph>& graphs) {
  std::size_t sent = 0, received = 0;
  for (std::uint32_t rank = 0; rank < graphs.size(); ++rank) {
    for (const auto& [key, one] : graphs[rank].sends)
      EXPECT_TRUE(graphs.at(key.worker).receives.contains({rank, key.message}))
          << rank << " to " << key.worker;
    sent += graphs[rank].sends.size();
    received += graphs[rank].receives.size();
  }
  EXPECT_EQ(sent, received);
}

std::vector<recorded_graph> graphs_of(const std::vector<node>& nodes, std::uint64_t context) {
  std::vector<recorded_graph> out;
  for (const auto& n : nodes) out.push_back(autograd::recorded(n, context));
  return out;
}

TEST_P(recorded_graphs, of_a_call) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(), y = leaf();
  {
    const context c(nodes[0]);
    const auto sum = nodes[0].rpc_sync<&add>("b", x, y);
    const auto graphs = graphs_of(nodes, c.id());
    expect_asked(graphs[0], 1, x, y, sum);
    expect_added(graphs[1], 0);
    expect_pairs(graphs);
    EXPECT_THAT(graphs[0].workers, ElementsAre(1u));
    EXPECT_THAT(graphs[1].workers, ElementsAre(0u));

    const auto other = nodes[0].rpc_sync<&add>("b", x, torch::ones({3, 3}));
    EXPECT_EQ(graphs[0].sends.size(), 1u) << "a copy";
    const auto now = c.recorded();
    EXPECT_EQ(now.sends.size(), 2u);
    EXPECT_EQ(now.receives.size(), 2u);
    for (const auto& [key, one] : now.sends)
      if (!graphs[0].sends.contains(key)) {
        EXPECT_EQ(one->num_inputs(), 1u) << "only what requires a gradient";
      }
    EXPECT_TRUE(has(now.receives, other.grad_fn()));
  }
  shut_down(nodes);
}

TEST_P(recorded_graphs, of_a_remote_value) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(), y = leaf();
  {
    const context c(nodes[0]);
    const auto made = nodes[0].remote<&add>("b", x, y);
    const auto sum = made.to_here();
    const auto graphs = graphs_of(nodes, c.id());
    expect_asked(graphs[0], 1, x, y, sum);
    expect_added(graphs[1], 0);
    expect_pairs(graphs);
    EXPECT_THAT(graphs[0].workers, ElementsAre(1u));
  }
  shut_down(nodes);
}

TEST_P(recorded_graphs, of_calls_in_calls) {
  auto nodes = start({"a", "b", "c", "d"});
  const auto x = leaf(), y = leaf();
  {
    const context c(nodes[0]);
    const std::vector<std::uint32_t> way{2, 3};
    const auto sum = nodes[0].rpc_sync<&add_along>("b", x, y, way);
    const auto graphs = graphs_of(nodes, c.id());
    expect_asked(graphs[0], 1, x, y, sum);
    expect_passed_on(graphs[1], 0, 2);
    expect_passed_on(graphs[2], 1, 3);
    expect_added(graphs[3], 2);
    expect_pairs(graphs);
    EXPECT_EQ(graphs[1].sends.size(), 2u);
    EXPECT_EQ(graphs[2].receives.size(), 2u);
    // Each knows those that it has exchanged messages with, and no others.
    EXPECT_THAT(graphs[0].workers, ElementsAre(1u));
    EXPECT_THAT(graphs[1].workers, ElementsAre(0u, 2u));
    EXPECT_THAT(graphs[2].workers, ElementsAre(1u, 3u));
    EXPECT_THAT(graphs[3].workers, ElementsAre(2u));
  }
  shut_down(nodes);
}

TEST_P(recorded_graphs, of_a_call_that_comes_back) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(), y = leaf();
  {
    const context c(nodes[0]);
    const std::vector<std::uint32_t> way{0};
    const auto sum = nodes[0].rpc_sync<&add_along>("b", x, y, way);
    const auto graphs = graphs_of(nodes, c.id());
    // The opener has asked with its leaves, and answered with a sum of what has come back.
    EXPECT_EQ(graphs[0].sends.size(), 2u);
    EXPECT_EQ(graphs[0].receives.size(), 2u);
    EXPECT_TRUE(has(graphs[0].receives, sum.grad_fn()));
    int questions = 0, answers = 0;
    for (const auto& [key, one] : graphs[0].sends) {
      const auto next = after(one);
      if (next.size() == 2 && leaf_of(next[0]).defined()) ++questions;
      if (next.size() == 1 && next[0]->name() == "AddBackward0") {
        ++answers;
        for (const auto& each : after(next[0])) {
          EXPECT_TRUE(has(graphs[0].receives, each));
          EXPECT_NE(each, sum.grad_fn());
        }
      }
    }
    EXPECT_EQ(questions, 1);
    EXPECT_EQ(answers, 1);
    EXPECT_EQ(graphs[1].sends.size(), 2u);
    EXPECT_EQ(graphs[1].receives.size(), 2u);
    for (const auto& [key, one] : graphs[1].sends)
      for (const auto& each : after(one)) EXPECT_TRUE(has(graphs[1].receives, each));
    expect_pairs(graphs);
    EXPECT_THAT(graphs[0].workers, ElementsAre(1u));
    EXPECT_THAT(graphs[1].workers, ElementsAre(0u));
  }
  shut_down(nodes);
}

TEST_P(recorded_graphs, of_a_call_to_oneself) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(), y = leaf();
  {
    const context c(nodes[0]);
    const auto sum = nodes[0].rpc_sync<&add>("a", x, y);
    const auto graph = c.recorded();
    EXPECT_EQ(graph.sends.size(), 2u);
    EXPECT_EQ(graph.receives.size(), 2u);
    expect_pairs({graph});
    EXPECT_THAT(graph.workers, ElementsAre(0u));
  }
  shut_down(nodes);
}

TEST_P(recorded_graphs, are_empty_without_gradients_but_workers_are_known) {
  auto nodes = start({"a", "b", "c"});
  std::uint64_t id = 0;
  {
    const context c(nodes[0]);
    id = c.id();
    EXPECT_TRUE(c.recorded().workers.empty());
    const auto x = torch::ones({3, 3});
    for (const auto* whom : {"b", "c"}) (void)nodes[0].rpc_sync<&add>(whom, x, x);
    for (const auto& graph : graphs_of(nodes, id)) {
      EXPECT_TRUE(graph.sends.empty());
      EXPECT_TRUE(graph.receives.empty());
    }
    EXPECT_THAT(c.recorded().workers, ElementsAre(1u, 2u));
    EXPECT_THAT(autograd::recorded(nodes[2], id).workers, ElementsAre(0u));
    for (const auto* whom : {"b", "c"}) (void)nodes[0].rpc_sync<&add>(whom, leaf(), x);
    EXPECT_THAT(c.recorded().workers, ElementsAre(1u, 2u));
    EXPECT_EQ(c.recorded().sends.size(), 2u);
  }
  expect_no_contexts(nodes);
  for (const auto& n : nodes) EXPECT_THROW(autograd::recorded(n, id), unknown_context);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
