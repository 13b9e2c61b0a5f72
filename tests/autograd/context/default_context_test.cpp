// libtorch's own `backward()`, which goes over nodes where a default context is open.

#include <thread>
#include <troupe/autograd.hpp>

#include "tests/autograd/context/no_contexts.hpp"
#include "tests/autograd/graphs/one_way.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::current_context;
using autograd::default_context;

class default_contexts : public on_networks {};
TROUPE_ON_NETWORKS(default_contexts);

at::Tensor my_add(const at::Tensor& x, double y) { return x + y; }
at::Tensor add(const at::Tensor& a, const at::Tensor& b) { return at::add(a, b); }
at::Tensor grad_of(const rref<at::Tensor>& w) { return w.local_value().grad().detach().clone(); }

TEST_P(default_contexts, run_the_program_of_the_slides) {
  auto nodes = start({"p0", "p1", "p2"});
  {
    const auto& node = nodes[0];
    const default_context as_if_local(node);
    auto x = torch::zeros({2}, torch::requires_grad());
    {
      auto fut = node.rpc_async<&my_add>("p1", x, 1);
      auto rref = node.remote<&add>("p2", x, fut.get());
      rref.to_here().sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 2.0)));
    }
    auto fut = node.rpc_async<&my_add>("p1", x, 1);
    auto rref = node.remote("p2", "aten::add", x, fut.get());
    rref.to_here().to<at::Tensor>().sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), torch::full({2}, 4.0))) << "added to what was there";
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(default_contexts, gradients_are_added_where_the_leaves_are) {
  auto nodes = start({"a", "b"});
  {
    const default_context as_if_local(nodes[0]);
    const auto x = leaf(2);
    const auto w = nodes[0].rpc_sync<&own_weight>("b", 7.0);
    for (int i = 1; i <= 3; ++i) {
      const auto before = as_if_local.id();
      EXPECT_EQ(current_context(), before);
      const auto y = 2 * x;
      // The graph leaves the node and comes back into what it has not left.
      (nodes[0].rpc_sync<&times_weight>("b", y, w) + y).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), all(i * 16)));
      EXPECT_TRUE(torch::equal(nodes[0].rpc_sync<&grad_of>("b", w), all(i * 4)));
      EXPECT_NE(as_if_local.id(), before) << "the next context";
      EXPECT_EQ(current_context(), as_if_local.id());
      EXPECT_TRUE(autograd::get_gradients(nodes[0], as_if_local.id()).empty());
    }
    // Nothing is left of those that are over, while the scope goes on.
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().autograd_contexts <= 1; }));
    EXPECT_EQ(nodes[0].debug_info().autograd_contexts, 1u);
  }
  EXPECT_EQ(current_context(), 0u);
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(default_contexts, a_graph_that_is_retained_may_be_gone_through_again) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  {
    const default_context as_if_local(nodes[0]);
    const auto id = as_if_local.id();
    const auto y = nodes[0].rpc_sync<&twice>("b", x), z = nodes[0].rpc_sync<&multiply>("b", x, x);
    y.sum().backward({}, true);
    z.sum().backward({}, true);
    EXPECT_EQ(as_if_local.id(), id);
    EXPECT_TRUE(torch::equal(x.grad(), all(2 + 4)));
    y.sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(4 + 4)));
    EXPECT_NE(as_if_local.id(), id);
    const auto why = fault_of<unknown_context>([&] { z.sum().backward(); }).text;
    EXPECT_THAT(why, testing::HasSubstr("retain_graph"));
    // What is kept for the next step belongs to the last one, unless it is detached.
    const auto next = nodes[0].rpc_sync<&twice>("b", x);
    EXPECT_THROW((y + next).sum().backward({}, true), error);
    (y.detach() + next).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(8 + 2)));
  }
  shut_down(nodes);
}

TEST_P(default_contexts, roots_and_what_stays_here_are_as_libtorch_has_them) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(3);
  {
    const default_context as_if_local(nodes[0]);
    const auto id = as_if_local.id();
    (x * x).sum().backward();  // does not leave the node
    EXPECT_TRUE(torch::equal(x.grad(), all(6)));
    EXPECT_EQ(as_if_local.id(), id);

    const auto y = nodes[0].rpc_sync<&twice>("b", x);
    EXPECT_THAT(fault_of<invalid_argument>([&] { y.backward(); }).text,
                testing::HasSubstr("only for scalar outputs"));
    EXPECT_THROW(y.backward(all(1, 2)), invalid_argument);
    const std::vector<at::Tensor> some{x};
    EXPECT_THROW(y.sum().backward({}, {}, false, at::TensorList(some)), invalid_argument);
    const auto number = torch::full({1}, 2.0, torch::kComplexDouble).requires_grad_();
    const auto doubled = nodes[0].rpc_sync<&twice>("b", number);
    EXPECT_THAT(fault_of<invalid_argument>([&] { doubled.backward(); }).text,
                testing::HasSubstr("only for real scalar outputs but got ComplexDouble"));
    EXPECT_EQ(as_if_local.id(), id) << "nothing has been run";
    y.backward(all(5));
    EXPECT_TRUE(torch::equal(x.grad(), all(6 + 10)));
  }
  shut_down(nodes);
}

// One gradient for both leaves comes as two tensors over one memory.
TEST_P(default_contexts, leaves_share_no_gradient) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(1), y = leaf(1);
  {
    const default_context as_if_local(nodes[0]);
    for (int i = 1; i <= 3; ++i) {
      nodes[0].rpc_sync<&add>("b", x, y).backward(all(1));
      EXPECT_TRUE(torch::equal(x.grad(), all(i)));
      EXPECT_TRUE(torch::equal(y.grad(), all(i)));
    }
  }
  shut_down(nodes);
}

TEST_P(default_contexts, second_derivatives_cross_nodes) {
  auto nodes = start({"a", "b"});
  auto x = leaf(2);
  {
    const default_context as_if_local(nodes[0]);
    const auto y = nodes[0].rpc_sync<&multiply>("b", x, nodes[0].rpc_sync<&multiply>("b", x, x));
    y.sum().backward({}, {}, true);  // x^3
    const auto first = x.grad();
    EXPECT_TRUE(torch::equal(first, all(12)));
    x.mutable_grad() = at::Tensor();
    first.sum().backward();
    EXPECT_TRUE(torch::allclose(x.grad(), all(12)));
  }
  shut_down(nodes);
}

TEST_P(default_contexts, stand_beside_others) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  {
    const default_context outer(nodes[0]);
    const auto first = outer.id();
    const auto y = nodes[0].rpc_sync<&twice>("b", x);
    {
      const context inner(nodes[0]);
      const auto z = nodes[0].rpc_sync<&multiply>("b", x, x);
      EXPECT_THAT(fault_of<invalid_argument>([&] { (y + z).sum().backward({}, true); }).text,
                  testing::HasSubstr("two autograd contexts"));
      EXPECT_THAT(fault_of<invalid_argument>([&] { z.sum().backward({}, true); }).text,
                  testing::HasSubstr("troupe::autograd::context::backward"));
      inner.backward({z.sum()});
      EXPECT_TRUE(torch::equal(inner.get_gradients()[x], all(4)));
      EXPECT_FALSE(x.grad().defined());
      y.sum().backward();  // in the outer one, which is renewed below
      EXPECT_TRUE(torch::equal(x.grad(), all(2)));
      EXPECT_EQ(current_context(), inner.id());
    }
    EXPECT_NE(outer.id(), first);
    EXPECT_EQ(current_context(), outer.id());
    nodes[0].rpc_sync<&twice>("b", x).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(4)));
  }
  EXPECT_EQ(current_context(), 0u);
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(default_contexts, of_several_nodes_may_be_open_inside_of_one_another) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  {
    const default_context outer(nodes[0]);
    const auto first = outer.id();
    const auto y = nodes[0].rpc_sync<&twice>("b", x);
    {
      const default_context inner(nodes[1]);
      const auto z = nodes[1].rpc_sync<&twice>("a", x);
      EXPECT_THAT(fault_of<invalid_argument>([&] { (y + z).sum().backward({}, true); }).text,
                  testing::HasSubstr("two autograd contexts"));
      z.sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), all(2)));
      EXPECT_EQ(outer.id(), first);
      y.sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), all(4)));
      EXPECT_EQ(current_context(), inner.id());
    }
    EXPECT_NE(outer.id(), first);
    EXPECT_EQ(current_context(), outer.id());
    nodes[0].rpc_sync<&twice>("b", x).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(6)));
  }
  EXPECT_EQ(current_context(), 0u);
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(default_contexts, of_several_threads_add_to_one_grad_and_do_not_mix) {
  auto nodes = start({"a", "b"});
  const auto w = nodes[0].rpc_sync<&own_weight>("b", 7.0);
  std::vector<int> trainers{0, 1, 2, 3};
  all_at_once(trainers, [&](int) {
    const default_context as_if_local(nodes[0]);
    const auto x = leaf(2);
    for (int i = 1; i <= 30; ++i) {
      nodes[0].rpc_sync<&times_weight>("b", x, w).sum().backward();
      EXPECT_TRUE(torch::equal(x.grad(), all(i * 7)));
    }
  });
  EXPECT_TRUE(torch::equal(nodes[0].rpc_sync<&grad_of>("b", w), all(4 * 30 * 2)));
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(default_contexts, other_threads_may_join_in) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  {
    const default_context as_if_local(nodes[0]);
    const auto y = nodes[0].rpc_sync<&twice>("b", x);
    std::thread([&] {
      const autograd::within it(as_if_local.id());
      (y + nodes[0].rpc_sync<&twice>("b", x)).sum().backward();
    }).join();
    EXPECT_TRUE(torch::equal(x.grad(), all(4)));
    EXPECT_EQ(current_context(), as_if_local.id());
    nodes[0].rpc_sync<&twice>("b", x).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(6)));
    std::thread([&] {
      nodes[0].rpc_sync<&twice>("b", x).sum().backward();  // in no context: nothing is recorded
    }).join();
    EXPECT_TRUE(torch::equal(x.grad(), all(6)));
  }
  shut_down(nodes);
}

TEST_P(default_contexts, go_on_after_a_pass_that_fails) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  at::Tensor left;
  {
    const default_context as_if_local(nodes[0]);
    const auto first = as_if_local.id();
    const auto y = nodes[0].rpc_sync<&one_way>("b", x);
    const auto why = fault_of<error>([&] { y.sum().backward(); });
    EXPECT_THAT(why.text, testing::HasSubstr("no way back"));
    EXPECT_EQ(why.node, "b");
    EXPECT_NE(as_if_local.id(), first);
    EXPECT_FALSE(x.grad().defined());
    nodes[0].rpc_sync<&twice>("b", x).sum().backward();
    EXPECT_TRUE(torch::equal(x.grad(), all(2)));
    left = nodes[0].rpc_sync<&twice>("b", x);
  }
  expect_no_contexts(nodes);
  EXPECT_THROW(left.sum().backward(), error);  // the scope is over
  shut_down(nodes);
}

// A pass could only begin after the one that the hook belongs to, which goes on.
TEST_P(default_contexts, are_not_ended_by_a_hook_that_cannot_begin_a_pass) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2), z = leaf(3);
  {
    const default_context as_if_local(nodes[0]);
    const auto id = as_if_local.id();
    const auto y = nodes[0].rpc_sync<&twice>("b", x), other = nodes[0].rpc_sync<&twice>("b", z);
    std::string why;
    y.register_hook([&](const at::Tensor&) {
      const at::AutoGradMode on(true);
      const autograd::within it(id);
      why = fault_of<deadlock_error>([&] { other.sum().backward(); }).text;
    });
    y.sum().backward({}, true);
    EXPECT_THAT(why, testing::HasSubstr("waits for another pass of its context"));
    EXPECT_TRUE(torch::equal(x.grad(), all(2)));
    EXPECT_EQ(as_if_local.id(), id);
    other.sum().backward();
    EXPECT_TRUE(torch::equal(z.grad(), all(2)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
