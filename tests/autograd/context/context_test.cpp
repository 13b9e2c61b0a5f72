// Distributed autograd contexts: what they record, backward passes through them, and their end.

#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

#include <troupe/autograd.hpp>

#include "tests/autograd/context/no_contexts.hpp"
#include "tests/autograd/graphs/one_way.hpp"
#include "tests/autograd/graphs/small_graphs.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/autograd/context/context_table.hpp"

namespace troupe::test {
namespace {

using autograd::context;
using autograd::pass_mode;

class contexts : public on_networks {};
TROUPE_ON_NETWORKS(contexts);

std::size_t gradients_here(std::uint64_t id) {
  return autograd::get_gradients(this_node(), id).size();
}
// Through all nodes of the job, each once.
at::Tensor around(const at::Tensor& x, int left) {
  if (left == 0) return x * x;
  const auto here = this_node();
  const auto next = (here.rank() + 1) % here.world_size();
  return 3 * here.rpc_sync<&around>(next, 2 * x, left - 1);
}
task<at::Tensor> around_later(at::Tensor x, int left) {
  if (left == 0) co_return x* x;
  const auto here = this_node();
  const auto next = (here.rank() + 1) % here.world_size();
  co_return 3 * co_await here.rpc_async<&around_later>(next, 2 * x, left - 1);
}
std::uint64_t context_here() { return autograd::current_context(); }
std::pair<at::Tensor, at::Tensor> both(const at::Tensor& x) { return {x * 2, x * 3}; }

constexpr pass_mode both_modes[] = {pass_mode::smart, pass_mode::fast};

TEST_P(contexts, a_call_is_gone_through_backwards) {
  auto nodes = start({"a", "b"});
  for (const auto mode : both_modes) {
    const auto x = leaf(3), y = leaf(5);
    const context c(nodes[0]);
    EXPECT_EQ(c.id() >> 44, 0u);
    const auto z = nodes[0].rpc_sync<&multiply>("b", x, y);
    EXPECT_TRUE(torch::equal(z, all(15)));
    c.backward({(2 * z).sum()}, {.mode = mode});
    const auto g = c.get_gradients();
    EXPECT_EQ(g.size(), 2u);
    EXPECT_TRUE(torch::equal(g[x], all(10)));
    EXPECT_TRUE(torch::equal(g[y], all(6)));
    EXPECT_FALSE(x.grad().defined());
    EXPECT_EQ(nodes[0].rpc_sync<&gradients_here>("b", c.id()), 0u);
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, gradients_stay_where_the_leaf_is) {
  auto nodes = start({"a", "b", "c"});
  for (const auto mode : both_modes) {
    const context c(nodes[2]);
    EXPECT_EQ(c.id() >> 44, 2u);
    const auto w = nodes[2].rpc_sync<&own_weight>("b", 7.0);
    const auto x = leaf(2);
    const auto y = nodes[2].rpc_sync<&times_weight>("b", x, w);
    c.backward({y.sum()}, {.mode = mode});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(7)));
    EXPECT_TRUE(torch::equal(nodes[2].rpc_sync<&gradient_here>("b", c.id(), w), all(2)));
    EXPECT_EQ(c.get_gradients().size(), 1u);
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, nested_calls_coroutines_and_calls_to_oneself) {
  auto nodes = start({"a", "b", "c"});
  for (const auto mode : both_modes)
    for (const int hops : {0, 1, 2, 3, 5, 7}) {
      const auto x = leaf(2), local = leaf(2);
      auto wanted = local;
      for (int i = 0; i < hops; ++i) wanted = 2 * wanted;
      wanted = wanted * wanted;
      for (int i = 0; i < hops; ++i) wanted = 3 * wanted;
      wanted.sum().backward();
      {
        const context c(nodes[0]);
        c.backward({nodes[0].rpc_sync<&around>("a", x, hops).sum()}, {.mode = mode});
        EXPECT_TRUE(torch::equal(c.get_gradients()[x], local.grad())) << hops;
      }
      const context c(nodes[0]);
      c.backward({nodes[0].rpc_sync<&around_later>("b", x, hops).sum()}, {.mode = mode});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], local.grad())) << hops;
    }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, remote_references_and_lent_values) {
  auto nodes = start({"a", "b", "c"});
  for (const auto mode : both_modes) {
    const auto x = leaf(2), y = leaf(5);
    const context c(nodes[0]);
    const auto on_b = nodes[0].remote<&multiply>("b", x, y);
    const auto on_c = nodes[0].remote<&multiply>("c", on_b, on_b);
    const auto on_a = nodes[0].remote<&twice>("a", on_c);
    c.backward({on_a.to_here().sum()}, {.mode = mode});  // 2 (x y)^2
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(4 * 2 * 25)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[y], all(4 * 4 * 5)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, passes_begin_at_values_of_other_nodes) {
  auto nodes = start({"a", "b", "c"});
  const auto x = leaf(2, 1), y = leaf(5, 1);
  {
    const context c(nodes[0]);
    const auto on_b = nodes[0].remote<&multiply>("b", x, y);
    const auto on_c = nodes[0].remote<&multiply>("c", on_b, x);
    on_c.backward(c, autograd::pass_options{.retain_graph = true});  // x^2 y
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(20, 1)));
    on_c.backward(c);
    EXPECT_TRUE(torch::equal(c.get_gradients()[y], all(8, 1)));
    const auto number = nodes[0].remote<&multiply>("b", all(1, 2), all(1, 2));
    EXPECT_THROW(number.backward(c), invalid_argument);
    EXPECT_THROW(on_c.backward(), invalid_argument);  // no context, and not the owner
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

void backward_of(rref<at::Tensor> root, std::uint64_t id) { root.backward(id); }

template <class T>
concept has_backward = requires(const rref<T>& r) {
  r.backward();
};
template <class T>
concept has_backward_in_context = requires(const rref<T>& r, std::uint64_t id) {
  r.backward(id);
};
static_assert(has_backward<at::Tensor> && has_backward_in_context<at::Tensor>);
static_assert(!has_backward<int> && !has_backward_in_context<int>);

TEST_P(contexts, are_named_by_their_ids_where_passes_begin_at_references) {
  auto nodes = start({"a", "b", "c"});
  const auto& a = nodes[0];
  const auto x = leaf(2, 1), y = leaf(5, 1);
  {
    const context c(a);
    const auto on_b = a.remote<&multiply>("b", x, y);
    const auto on_c = a.remote<&multiply>("c", on_b, x);  // x^2 y
    EXPECT_THROW(on_c.backward(-1), invalid_argument);
    EXPECT_THROW(on_c.backward(-1, true), invalid_argument);
    EXPECT_THROW(on_c.backward(c.id() + 1), unknown_context);
    auto gone = a.make_rref(x * y);
    const auto kept = std::move(gone);
    EXPECT_THROW(gone.backward(c.id()), invalid_argument);
    EXPECT_THROW(gone.backward(c), invalid_argument);
    on_c.backward(c.id(), true);
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(20, 1)));
    a.rpc_sync<&backward_of>("b", on_c, c.id());
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(40, 1)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[y], all(8, 1)));
  }
  {
    // On the owner: with an id, or without, into `.grad`.
    const context c(a);
    const auto mine = a.make_rref(x * y);
    mine.backward(c.id(), autograd::pass_options{.retain_graph = true});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(5, 1)));
    EXPECT_FALSE(x.grad().defined());
    mine.backward(-1, true);
    EXPECT_TRUE(torch::equal(x.grad(), all(5, 1)));
    mine.backward(std::int64_t{-1});
    EXPECT_TRUE(torch::equal(x.grad(), all(10, 1)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(5, 1)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, go_along_with_futures_as_arguments_and_what_follows_them) {
  auto nodes = start({"a", "b"});
  for (const auto mode : both_modes) {
    const auto x = leaf(2), w = leaf(5);
    const context c(nodes[0]);
    const auto doubled = nodes[0].rpc_async<&twice>("b", x);
    const auto y = nodes[0].rpc_async<&multiply>("b", doubled, w);
    const auto z = doubled.then([&](const at::Tensor& t) {
      EXPECT_EQ(autograd::current_context(), c.id());
      return 2 * t;
    });
    c.backward({(y.get() + z.get()).sum()}, {.mode = mode});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 * 5 + 4)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[w], all(4)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, are_for_what_was_asked_for_in_them) {
  auto nodes = start({"a"});
  const auto where = [](int) { return autograd::current_context(); };
  promise<int> value;
  const auto outside = value.get_future().then(where);
  const context c(nodes[0]);
  const auto inside = value.get_future().then(where);
  const context other(nodes[0]);
  value.set_value(1);  // both run here
  EXPECT_EQ(outside.get(), 0u);
  EXPECT_EQ(inside.get(), c.id());
  EXPECT_EQ(autograd::current_context(), other.id());
  shut_down(nodes);
}

TEST_P(contexts, are_for_what_takes_the_future_of_what_was_asked_for_in_them) {
  auto nodes = start({"a"});
  const auto where = [](const future<int>& done) {
    EXPECT_TRUE(done.ready());
    return autograd::current_context();
  };
  for (const bool fails : {false, true}) {
    promise<int> value;
    const auto outside = value.get_future().then(where);
    const context c(nodes[0]);
    const auto inside = value.get_future().then(where);
    const context other(nodes[0]);
    if (fails)
      value.set_exception(std::make_exception_ptr(std::domain_error("no")));
    else
      value.set_value(1);
    EXPECT_EQ(outside.get(), 0u);
    EXPECT_EQ(inside.get(), c.id());
    EXPECT_EQ(autograd::current_context(), other.id());
  }
  shut_down(nodes);
}

TEST_P(contexts, smart_passes_leave_out_what_the_roots_do_not_use) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2), y = leaf(5);
  {
    const context c(nodes[0]);
    const auto used = nodes[0].rpc_sync<&both>("b", x).first;
    const auto unused = nodes[0].rpc_sync<&multiply>("b", used, y);
    c.backward({used.sum()}, {.retain_graph = true});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2)));
    EXPECT_FALSE(c.get_gradients().contains(y));
    // The rest is left for a second loss, which adds to what is there.
    c.backward({unused.sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 + 2 * 5)));
    EXPECT_TRUE(torch::equal(c.get_gradients()[y], all(4)));
  }
  {
    const context c(nodes[0]);
    const auto used = nodes[0].rpc_sync<&twice>("b", x);
    const auto unused = nodes[0].rpc_sync<&multiply>("b", used, y);
    try {
      c.backward({used.sum()}, {.mode = pass_mode::fast});
      FAIL() << "a pass that cannot be completed";
    } catch (const invalid_argument& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("pass_mode::smart"));
      EXPECT_THAT(e.what(), testing::HasSubstr(": a still awaits the gradients of 2 "));
    }
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().backward_passes == 0; }));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, several_roots_several_passes_several_contexts) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2), y = leaf(5);
  {
    const context outer(nodes[0]);
    const auto z = nodes[0].rpc_sync<&multiply>("b", x, y);
    {
      const context inner(nodes[0]);
      EXPECT_EQ(autograd::current_context(), inner.id());
      EXPECT_EQ(nodes[0].rpc_sync<&context_here>("b"), inner.id());
      inner.backward({nodes[0].rpc_sync<&multiply>("b", x, x).sum()});
      EXPECT_TRUE(torch::equal(inner.get_gradients()[x], all(4)));
    }
    EXPECT_EQ(autograd::current_context(), outer.id());
    for (int i = 1; i <= 3; ++i) {
      outer.backward({z.sum(), (z * z).sum()}, {.retain_graph = i < 3});
      EXPECT_TRUE(torch::equal(outer.get_gradients()[x], all(i * (5 + 2 * 10 * 5))));
    }
    EXPECT_THROW(outer.backward({z.sum()}), error);  // the graph has been let go of
  }
  EXPECT_EQ(autograd::current_context(), 0u);
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, wrong_roots_are_refused) {
  auto nodes = start({"a", "b"});
  {
    const context c(nodes[0]);
    const auto x = leaf(2);
    const auto text = [&](const std::vector<at::Tensor>& roots) -> std::string {
      try {
        c.backward(roots);
      } catch (const invalid_argument& e) {
        return e.what();
      }
      return "";
    };
    EXPECT_THAT(text({}), testing::HasSubstr("No tensors provided for gradient computation"));
    EXPECT_THAT(text({all(1)}), testing::HasSubstr("requires_grad not set on"));
    EXPECT_THAT(text({at::Tensor()}), testing::HasSubstr("requires_grad not set on"));
    EXPECT_THAT(text({x * 2}), testing::HasSubstr("is not a scalar, all roots need to be scalar"));
    EXPECT_THAT(text({leaf(1, 1)}), testing::HasSubstr("does not have a valid gradient function"));
    c.backward({(x * x).sum()});  // nothing of other nodes in it
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(4)));
  }
  EXPECT_THROW(autograd::backward(nodes[0], 12345, {leaf(1).sum()}), unknown_context);
  EXPECT_THROW(autograd::get_gradients(nodes[0], 12345), unknown_context);
  shut_down(nodes);
}

TEST_P(contexts, what_comes_after_the_end_is_refused) {
  auto nodes = start({"a", "b"});
  std::uint64_t id = 0;
  const auto x = leaf(2);
  {
    const context c(nodes[0]);
    id = c.id();
    nodes[0].rpc_sync<&twice>("b", x);
  }
  expect_no_contexts(nodes);
  const autograd::within late(id);
  try {
    nodes[0].rpc_sync<&twice>("b", x);
    FAIL() << "a call in a context that has ended";
  } catch (const unknown_context& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("Could not find autograd context with id"));
    EXPECT_THAT(e.what(), testing::HasSubstr("its scope has ended"));
  }
  EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 0u);
  shut_down(nodes);
}

// Another thread has found it just before; the members that it would send it to would never be
// notified of the end.
TEST_P(contexts, go_to_no_other_node_when_they_end) {
  auto nodes = start({"a", "b"});
  auto& table = autograd::detail::context_table::of(nodes[0].core());
  const auto found = table.open();
  auto& b = nodes[0].core().find("b");
  found->know(b);
  table.end(found->id(), "its scope has ended");
  EXPECT_THROW(found->know(b), unknown_context);
  shut_down(nodes);
}

// A tensor that outlives its node still names the node it came from.
TEST_P(contexts, leave_tensors_that_end_where_they_came_from) {
  const auto x = leaf(2);
  const auto y = [&] {
    auto nodes = start({"a", "b_with_a_name_on_the_heap"});
    const context c(nodes[0]);
    auto doubled = nodes[0].rpc_sync<&twice>(1, x);
    shut_down(nodes);
    return doubled;
  }();
  EXPECT_THAT(fault_of<invalid_argument>([&] { y.sum().backward(); }).text,
              testing::HasSubstr("a tensor from b_with_a_name_on_the_heap, where it ends"));
}

// Nodes that have the same rank one after the other number their contexts and passes differently.
TEST_P(contexts, are_not_numbered_like_those_of_another_node) {
  const auto numbers = [&] {
    auto nodes = start({"a"});
    auto& table = autograd::detail::context_table::of(nodes[0].core());
    const std::pair out(context(nodes[0]).id(), table.next_number());
    shut_down(nodes);
    return out;
  };
  const auto one = numbers(), other = numbers();
  EXPECT_NE(one.first, other.first);
  EXPECT_NE(one.second, other.second);
}

TEST_P(contexts, without_gradients_nothing_is_recorded_but_the_context_travels) {
  auto nodes = start({"a", "b"});
  {
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&twice>("b", all(1));
    EXPECT_FALSE(y.requires_grad());
    EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 1u);
    const at::NoGradGuard off;
    const auto z = nodes[0].rpc_sync<&twice>("b", leaf(1));
    EXPECT_TRUE(z.is_leaf());
  }
  expect_no_contexts(nodes);
  const auto w = nodes[0].rpc_sync<&twice>("b", leaf(1));  // outside of any
  EXPECT_TRUE(w.is_leaf());
  shut_down(nodes);
}

// From b through c; it refuses on the way out where `where` is.
at::Tensor refuse_at(const at::Tensor& x, const std::string& where) {
  const auto here = this_node();
  const auto y = here.name() == where ? one_way(x) : x * 2;
  if (here.name() == "c") return y;
  return here.rpc_sync<&refuse_at>(here.name() == "a" ? "b" : "c", y, where);
}

TEST_P(contexts, a_pass_that_fails_reports_where_and_why) {
  auto nodes = start({"a", "b", "c"});
  const auto x = leaf(2);
  for (const std::string where : {"a", "b", "c"})
    for (const auto mode : both_modes) {
      const context c(nodes[0]);
      const auto y = nodes[0].rpc_sync<&refuse_at>("a", x, where);
      const auto z = nodes[0].rpc_sync<&twice>("b", x);
      try {
        c.backward({y.sum() + z.sum()}, {.retain_graph = true, .mode = mode});
        FAIL() << "a pass through what throws";
      } catch (const error& e) {
        EXPECT_EQ(e.node(), where);
        EXPECT_THAT(e.what(), testing::HasSubstr("no way back"));
        EXPECT_THAT(e.what(), testing::HasSubstr("refusing"));
      }
      for (const auto& n : nodes)
        EXPECT_TRUE(eventually([&] { return n.debug_info().backward_passes == 0; })) << n.name();
      c.backward({z.sum()}, {.retain_graph = true});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2)));
    }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// Waits at the door of the test on its way back.
struct slow_return : torch::autograd::Function<slow_return> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    shared_door::current()->pass();
    return gradients;
  }
};
at::Tensor slow_way(const at::Tensor& x) { return slow_return::apply(x); }
at::Tensor slow_through_c(const at::Tensor& x) { return this_node().rpc_sync<&slow_way>("c", x); }

TEST_P(contexts, a_node_that_is_lost_fails_the_pass_and_no_other) {
  auto nodes = start({"a", "b", "c"});
  const auto x = leaf(2);
  {
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&slow_through_c>("b", x);
    const auto z = nodes[0].rpc_sync<&twice>("b", x);
    const auto until_c_ends = nodes[2].sleep_for(24h);
    const shared_door door;
    const auto pass = c.backward_async({y.sum()});
    ASSERT_TRUE(door->wait_for(1));
    auto ending = std::async(std::launch::async, [&] { nodes[2].shutdown(false); });
    EXPECT_THROW(until_c_ends.get(), not_initialized);  // from now on c does not answer
    door->open();
    ending.get();
    try {
      pass.get();
      FAIL() << "a pass through a lost node";
    } catch (const peer_lost& e) {
      EXPECT_EQ(e.node(), "c");
    }
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().backward_passes == 0; }));
    c.backward({z.sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2)));
  }
  nodes.pop_back();
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, a_context_that_ends_ends_its_passes) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 3; ++i) {
    const shared_door door;
    future<void> pass = [&] {
      const context c(nodes[0]);
      const auto y = nodes[0].rpc_sync<&slow_way>("b", leaf(2));
      auto under_way = c.backward_async({y.sum()});
      if (i > 0) {
        EXPECT_TRUE(door->wait_for(1));
      }
      return under_way;
    }();
    door->open();
    try {
      pass.get();
    } catch (const error&) {
    }
    expect_no_contexts(nodes);
  }
  shut_down(nodes);
}

TEST_P(contexts, second_derivatives_cross_nodes) {
  auto nodes = start({"a", "b"});
  const auto x = leaf(2);
  {
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&multiply>("b", x, nodes[0].rpc_sync<&multiply>("b", x, x));
    c.backward({y.sum()}, {.create_graph = true});  // x^3
    const auto first = c.get_gradients()[x];
    EXPECT_TRUE(torch::equal(first, all(12)));
    c.backward({first.sum()});
    EXPECT_TRUE(torch::allclose(c.get_gradients()[x], all(12 + 12)));  // added to the first
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(contexts, of_a_lost_opener_end_everywhere) {
  auto nodes = start({"a", "b", "c"});
  {
    const autograd::within none(0);
    const context c(nodes[1]);
    nodes[1].rpc_sync<&around>("c", leaf(2), 3);
    EXPECT_EQ(nodes[0].debug_info().autograd_contexts, 1u);
    EXPECT_EQ(nodes[2].debug_info().autograd_contexts, 1u);
    nodes[1].shutdown(false);
  }
  for (const auto i : {0u, 2u})
    EXPECT_TRUE(eventually([&] { return nodes[i].debug_info().autograd_contexts == 0; }));
  nodes.erase(nodes.begin() + 1);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
