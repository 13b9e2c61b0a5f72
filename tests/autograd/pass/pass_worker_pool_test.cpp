// The actors that run backward passes: each for one context at a time, and for another one later.

#include <torch/types.h>

#include <algorithm>
#include <set>
#include <troupe/autograd.hpp>

#include "tests/actors/node/job.hpp"
#include "troupe/autograd/context/context_table.hpp"
#include "troupe/autograd/pass/pass_steps.hpp"
#include "troupe/autograd/pass/pass_worker_pool.hpp"

namespace troupe::test {
namespace {

using namespace autograd::detail;
using autograd::context;

class pass_worker_pools : public on_networks {};
TROUPE_ON_NETWORKS(pass_worker_pools);

at::Tensor twice(const at::Tensor& a) { return 2 * a; }

pass_actor actor_in(const node& here, std::uint64_t context) {
  return actor_of(here.core(), context_table::of(here.core()).find(context));
}
pass_actor actor_in(const node& here, const context& c) { return actor_in(here, c.id()); }

std::uint64_t id_of(const pass_actor& actor) {
  return caf::actor_cast<caf::strong_actor_ptr>(actor)->id();
}
std::uint64_t actor_id_here(std::uint64_t context) { return id_of(actor_in(this_node(), context)); }

// One forward and backward pass through "b"; the ids of the actors on both nodes.
std::pair<std::uint64_t, std::uint64_t> pass_through_b(const node& here, const context& c) {
  const auto x = torch::ones({3}, torch::requires_grad());
  c.backward({here.rpc_sync<&twice>("b", x).sum()});
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], torch::full({3}, 2.0)));
  return {id_of(actor_in(here, c)), here.rpc_sync<&actor_id_here>("b", c.id())};
}

bool is_over_everywhere(const std::vector<node>& nodes) {
  return eventually([&] {
    for (const auto& n : nodes)
      if (n.debug_info().autograd_contexts != 0 || n.debug_info().backward_passes != 0)
        return false;
    return true;
  });
}

// A thread that has just sent an actor a message may still hold it when its context is over.
bool have_free_actors(const std::vector<node>& nodes, std::size_t count) {
  return eventually([&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](const node& n) {
      return context_table::of(n.core()).free_workers() == count;
    });
  });
}

TEST_P(pass_worker_pools, one_actor_serves_context_after_context) {
  auto nodes = start({"a", "b"});
  std::set<std::uint64_t> here, there;
  for (int i = 0; i < 50; ++i) {
    {
      const context c(nodes[0]);
      const auto [a, b] = pass_through_b(nodes[0], c);
      here.insert(a);
      there.insert(b);
    }
    ASSERT_TRUE(is_over_everywhere(nodes));
    ASSERT_TRUE(have_free_actors(nodes, 1));
  }
  EXPECT_EQ(here.size(), 1u);
  EXPECT_EQ(there.size(), 1u);
  shut_down(nodes);
}

TEST_P(pass_worker_pools, contexts_at_the_same_time_have_actors_of_their_own) {
  auto nodes = start({"a", "b"});
  std::vector<std::unique_ptr<context>> all;
  std::set<std::uint64_t> here, there;
  for (int i = 0; i < 100; ++i) {  // more than are kept
    all.push_back(std::make_unique<context>(nodes[0]));
    const auto [a, b] = pass_through_b(nodes[0], *all.back());
    here.insert(a);
    there.insert(b);
  }
  EXPECT_EQ(here.size(), 100u);
  EXPECT_EQ(there.size(), 100u);
  all.clear();
  EXPECT_TRUE(is_over_everywhere(nodes));
  ASSERT_TRUE(have_free_actors(nodes, pass_worker_pool::most_idle));
  const context c(nodes[0]);
  const auto [a, b] = pass_through_b(nodes[0], c);
  EXPECT_TRUE(here.contains(a));
  EXPECT_TRUE(there.contains(b));
  shut_down(nodes);
}

TEST_P(pass_worker_pools, one_that_is_still_held_is_not_reused) {
  auto nodes = start({"a", "b"});
  pass_actor held;
  std::uint64_t old = 0;
  {
    const context c(nodes[0]);
    pass_through_b(nodes[0], c);
    held = actor_in(nodes[0], c);
    old = c.id();
  }
  ASSERT_TRUE(is_over_everywhere(nodes));
  const context c(nodes[0]);
  EXPECT_NE(pass_through_b(nodes[0], c).first, id_of(held));
  // A late message is answered with an error that names its context, and harms no other context.
  gradients_arrive late;
  late.pass.context = old;
  late.pass.number = 1;
  const auto why = fault_of<unknown_context>([&] { request(held, late).get(); });
  EXPECT_NE(why.text.find(std::to_string(old)), std::string::npos) << why.text;
  send(held, forget_pass{old, 1});
  pass_through_b(nodes[0], c);
  shut_down(nodes);
}

// Late messages for a context that is over arrive at the actor of another one.
TEST_P(pass_worker_pools, refuse_messages_for_another_context) {
  auto nodes = start({"a", "b"});
  const context c(nodes[0]);
  pass_through_b(nodes[0], c);
  const auto actor = actor_in(nodes[0], c);
  gradients_arrive stray;
  stray.pass.context = c.id() + 1;
  stray.pass.number = 1;
  EXPECT_THROW(request(actor, stray).get(), unknown_context);
  send(actor, forget_pass{c.id() + 1, 1});
  pass_through_b(nodes[0], c);
  shut_down(nodes);
}

// The context's actor runs that hook, and is free only afterwards.
TEST_P(pass_worker_pools, a_hook_ends_its_context_and_begins_another) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 20; ++i) {
    const context c(nodes[0]);
    const auto x = torch::ones({3}, torch::requires_grad());
    auto y = nodes[0].rpc_sync<&twice>("b", x);
    std::uint64_t own = 0, others = 0;
    y.register_hook([&](const at::Tensor&) {
      own = id_of(actor_in(nodes[0], c));
      context_table::of(nodes[0].core()).end(c.id(), "a hook has ended it");
      const context another(nodes[0]);
      others = pass_through_b(nodes[0], another).first;
    });
    EXPECT_THROW(c.backward({y.sum()}), unknown_context);
    EXPECT_NE(own, 0u);
    EXPECT_NE(own, others);
  }
  EXPECT_TRUE(is_over_everywhere(nodes));
  const context c(nodes[0]);
  pass_through_b(nodes[0], c);
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
