// Backward passes whose roots leave messages out, over several nodes, and passes inside of passes.

#include <torch/torch.h>

#include <troupe/autograd.hpp>

#include "tests/actors/job.hpp"

namespace troupe::test {
namespace {

using autograd::context;

class rounds : public on_networks {};
TROUPE_ON_NETWORKS(rounds);

at::Tensor leaf(double value) {
  return torch::full({3}, value, torch::requires_grad().dtype(torch::kDouble));
}
at::Tensor all(double value) { return torch::full({3}, value, torch::kDouble); }

// Goes through all nodes; each sends an unused result of what it gets to the next but one, and of
// what it answers.
at::Tensor nothing_of(const at::Tensor& x) { return x * 0.5; }
at::Tensor around_with_waste(const at::Tensor& x, int left) {
  const auto here = this_node();
  const auto n = here.world_size();
  const auto y = 2 * x;
  (void)here.rpc_sync<&nothing_of>((here.rank() + 2) % n, y);
  if (left == 0) return y;
  const auto z = here.rpc_sync<&around_with_waste>((here.rank() + 1) % n, y, left - 1);
  (void)here.rpc_sync<&nothing_of>((here.rank() + 2) % n, z);
  return 3 * z;
}

TEST_P(rounds, go_on_over_all_nodes_that_wait_in_vain_and_leave_nothing_behind) {
  auto nodes = start({"a", "b", "c", "d"});
  const auto x = leaf(1);
  for (const int hops : {0, 1, 3, 6}) {
    const context c(nodes[0]);
    double factor = 2;
    for (int i = 0; i < hops; ++i) factor *= 6;
    const auto y = nodes[0].rpc_sync<&around_with_waste>("b", x, hops);
    const auto w = nodes[0].rpc_sync<&nothing_of>("c", y);
    for (int i = 1; i <= 3; ++i) {  // each adds to what is there
      c.backward({y.sum()}, {.retain_graph = true});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(i * factor))) << hops;
    }
    const auto later = c.backward_async({y.sum()}, {.retain_graph = true});
    later.get();
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(4 * factor))) << hops;
    for (const auto& n : nodes)  // while the context is open
      EXPECT_TRUE(eventually([&] { return n.debug_info().backward_passes == 0; })) << n.name();
    c.backward({w.sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(4.5 * factor))) << hops;
    EXPECT_THROW(c.backward({y.sum()}), error) << "the graph has been used up";
  }
  shut_down(nodes);
}

TEST_P(rounds, of_many_starters_do_not_mix) {
  auto nodes = start({"a", "b", "c"});
  all_at_once(nodes, [&](node& here) {
    const auto next = (here.rank() + 1) % 3;
    for (int i = 0; i < 30; ++i) {
      const auto x = leaf(here.rank());
      const context c(here);
      const auto y = here.rpc_sync<&around_with_waste>(next, x, 2);
      const auto one = c.backward_async({y.sum()}, {.retain_graph = true});
      c.backward({(2 * y).sum()}, {.retain_graph = true});
      one.get();
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3 * 72)));
    }
  });
  shut_down(nodes);
}

// What the hook does belongs to nobody else.
at::Tensor with_hook_that_calls(const at::Tensor& x, const std::string& whom) {
  const auto y = x * 2;
  y.register_hook(
      [whom](const at::Tensor& g) { return this_node().rpc_sync<&nothing_of>(whom, g) * 2; });
  return y * 3;
}

TEST_P(rounds, may_have_hooks_that_call_any_node) {
  auto nodes = start({"a", "b"});
  for (const auto* whom : {"a", "b"})
    for (const auto* where : {"a", "b"}) {
      const auto x = leaf(1);
      const context c(nodes[0]);
      c.backward({nodes[0].rpc_sync<&with_hook_that_calls>(where, x, whom).sum()});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(6))) << whom << where;
    }
  shut_down(nodes);
}

TEST_P(rounds, may_have_passes_of_other_contexts_in_their_hooks) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1);
  const context c(nodes[0]);
  const auto y = nodes[0].rpc_sync<&nothing_of>("b", x);
  int inner = 0;
  y.register_hook([&](const at::Tensor&) {
    const auto z = leaf(2);
    const context other(nodes[0]);
    other.backward({nodes[0].rpc_sync<&nothing_of>("b", z).sum()});
    inner += torch::equal(other.get_gradients()[z], all(0.5));
  });
  c.backward({y.sum()});
  EXPECT_EQ(inner, 1);
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(0.5)));
  shut_down(nodes);
}

// It would come after the one that it belongs to.
TEST_P(rounds, cannot_wait_for_a_pass_of_their_own_context) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1);
  const context c(nodes[0]);
  const auto y = nodes[0].rpc_sync<&nothing_of>("b", x);
  y.register_hook(
      [&](const at::Tensor&) { c.backward({nodes[0].rpc_sync<&nothing_of>("b", x).sum()}); });
  try {
    c.backward({y.sum()});
    FAIL() << "a pass has waited for itself";
  } catch (const error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("waits for its own answer"));
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
