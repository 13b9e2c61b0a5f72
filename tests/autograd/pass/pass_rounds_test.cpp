// Backward passes whose roots leave messages out, over several nodes, and passes inside of passes.

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <troupe/autograd.hpp>

#include "tests/actors/node/job.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"

namespace troupe::test {
namespace {

using autograd::context;

class rounds : public on_networks {};
TROUPE_ON_NETWORKS(rounds);

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

// What the hook does belongs to no context.
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
    const at::AutoGradMode on(true);
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

// It would come after the one that it belongs to, and is not even begun.
TEST_P(rounds, cannot_wait_for_a_pass_of_their_own_context) {
  auto nodes = start({"a", "b"});
  for (const int way : {0, 1, 2, 3}) {
    const auto x = leaf(1), z = leaf(2);
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&nothing_of>("b", x);
    y.register_hook([&](const at::Tensor&) {
      const at::AutoGradMode on(true);
      const auto w = (z * 2).sum();
      if (way == 0) return c.backward({w});
      if (way == 1) return c.backward_async({w}).get();
      const context other(nodes[0]);  // one lies between
      const auto v = leaf(3) * 2;
      v.register_hook(
          [&](const at::Tensor&) { way == 2 ? c.backward({w}) : c.backward_async({w}).get(); });
      other.backward({v.sum()});
    });
    EXPECT_THAT(fault_of<error>([&] { c.backward({y.sum()}); }).text,
                testing::AnyOf(testing::HasSubstr("waits for another pass of its context"),
                               testing::HasSubstr("waits for its own answer")))
        << way;
    if (way % 2 == 0) {
      EXPECT_FALSE(c.get_gradients().contains(z)) << way;
    }
  }
  shut_down(nodes);
}

// libtorch's engine cannot run another pass of ours on the same thread.
TEST_P(rounds, may_be_run_by_hooks_of_local_passes) {
  auto nodes = start({"a", "b"});
  for (const bool by_libtorch : {true, false}) {
    const auto x = leaf(1);
    const auto y = x * 2;
    int inner = 0;
    y.register_hook([&](const at::Tensor&) {
      const at::AutoGradMode on(true);
      const auto z = leaf(2);
      const context other(nodes[0]);
      const auto w = nodes[0].rpc_sync<&around_with_waste>("b", z, 2);
      other.backward({w.sum()});
      inner += torch::equal(other.get_gradients()[z], all(72));
    });
    if (by_libtorch) {
      y.sum().backward();
    } else {
      const context c(nodes[0]);
      c.backward({y.sum()});
    }
    EXPECT_EQ(inner, 1);
  }
  shut_down(nodes);
}

// Of a promise that belongs to no node.
TEST_P(rounds, may_be_run_by_what_follows_a_future) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1);
  const context c(nodes[0]);
  promise<void> start;
  const auto after = start.get_future().then(
      [&] { c.backward({nodes[0].rpc_sync<&around_with_waste>("b", x, 1).sum()}); });
  start.set_value();
  after.get();
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(12)));
  shut_down(nodes);
}

// A shutdown would wait for the pass, which waits for the hook. It runs on the program's thread.
TEST_P(rounds, cannot_end_their_node_in_a_hook) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1);
  for (const bool leaves : {true, false}) {
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&nothing_of>("b", x);
    y.register_hook(
        [&](const at::Tensor&) { leaves ? nodes[0].leave() : nodes[0].shutdown(false); });
    EXPECT_THAT(fault_of<error>([&] { c.backward({y.sum()}); }).text,
                testing::HasSubstr("inside of a handler"));
  }
  shut_down(nodes);
}

class counts_calls final : public torch::autograd::PostAccumulateGradHook {
public:
  explicit counts_calls(int& calls) : calls_(calls) {}
  void operator()(const at::Tensor&) override { ++calls_; }

private:
  int& calls_;
};

// Only what the roots lead to matters.
TEST_P(rounds, leave_out_what_cannot_be_run) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1), other = leaf(1);
  int written = 0;
  torch::autograd::impl::set_post_acc_grad_hooks(other, std::make_unique<counts_calls>(written));
  const context c(nodes[0]);
  const auto y = nodes[0].rpc_sync<&around_with_waste>("b", x, 1);
  const auto unused = nodes[0].rpc_sync<&nothing_of>("b", other * 2);
  c.backward({y.sum()});
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(12)));
  EXPECT_THAT(fault_of<error>([&] { c.backward({unused.sum()}); }).text,
              testing::HasSubstr("does not do: remove the hook"));
  EXPECT_EQ(written, 0);
  shut_down(nodes);
}

TEST_P(rounds, are_not_those_of_libtorchs_own_pass) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1);
  const context c(nodes[0]);
  const auto y = nodes[0].rpc_sync<&nothing_of>("b", x);
  EXPECT_THAT(fault_of<invalid_argument>([&] { y.sum().backward({}, true); }).text,
              testing::HasSubstr("from b, where it ends: use troupe::autograd::context::backward"));
  EXPECT_FALSE(x.grad().defined());
  c.backward({y.sum()});
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(0.5)));
  shut_down(nodes);
}

// The sum of the gradients of a thousand passes; what passes leave behind would be seen, too.
TEST_P(rounds, may_be_a_thousand_over_one_graph) {
  auto nodes = start({"a", "b", "c"});
  const auto x = leaf(1);
  const context c(nodes[0]);
  const auto y = nodes[0].rpc_sync<&around_with_waste>("b", x, 2).sum();
  for (int i = 1; i <= 1000; ++i) c.backward({y}, {.retain_graph = true});
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(72'000)));
  for (const auto& n : nodes)
    EXPECT_TRUE(eventually([&] { return n.debug_info().backward_passes == 0; })) << n.name();
  shut_down(nodes);
}

// Steps are sent also to a node whose window is full.
at::Tensor sum_of_parts(const std::vector<at::Tensor>& parts, const std::string& next) {
  if (next.empty()) return torch::stack(parts).sum(0);
  std::vector<at::Tensor> sums;
  for (const auto& part : parts)
    sums.push_back(this_node().rpc_sync<&sum_of_parts>(next, std::vector{part}, ""));
  return torch::stack(sums).sum(0);
}

TEST(narrow_rounds, end_where_windows_are_full) {
  const rpc_options how{.window = {.messages = 8}, .overload = when_full::fail};
  auto nodes = local_nodes({"a", "b", "c"}, how);
  for (int i = 0; i < 20; ++i) {
    const context c(nodes[0]);
    const std::vector<at::Tensor> parts(64, leaf(1));
    const auto y = nodes[0].rpc_sync<&sum_of_parts>("b", parts, "c");
    std::optional<std::string> failure;
    try {
      c.backward({y.sum()});
    } catch (const error& e) {
      failure = e.what();
    }
    EXPECT_EQ(failure, std::nullopt) << i;
    if (failure) break;
    EXPECT_TRUE(torch::equal(c.get_gradients()[parts[0]], all(64)));
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
