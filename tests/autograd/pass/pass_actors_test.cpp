// The actors that run backward passes: each for one context at a time, and for another one later.

#include <torch/types.h>

#include <algorithm>
#include <set>
#include <troupe/autograd.hpp>

#include "troupe/autograd/context/context_table.hpp"
#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

using namespace autograd::detail;
using autograd::context;

class pass_actor_reuse : public on_networks {};
TROUPE_ON_NETWORKS(pass_actor_reuse);

at::Tensor twice(const at::Tensor& a) { return 2 * a; }

pass_actor actor_here(std::uint64_t id) {
  auto& table = context_table::of(this_node().core());
  return table.actor_of(table.find(id));
}
std::uint64_t actor_id_here(std::uint64_t id) {
  return caf::actor_cast<caf::strong_actor_ptr>(actor_here(id))->id();
}

pass_actor actor_of(const node& here, const context& c) {
  auto& table = context_table::of(here.core());
  return table.actor_of(table.find(c.id()));
}
std::uint64_t id_of(const pass_actor& actor) {
  return caf::actor_cast<caf::strong_actor_ptr>(actor)->id();
}

// One forward and backward pass through "b"; the ids of the actors on both nodes.
std::pair<std::uint64_t, std::uint64_t> pass_through_b(const node& here, const context& c) {
  const auto x = torch::ones({3}, torch::requires_grad());
  c.backward({here.rpc_sync<&twice>("b", x).sum()});
  EXPECT_TRUE(torch::equal(c.get_gradients()[x], torch::full({3}, 2.0)));
  return {id_of(actor_of(here, c)), here.rpc_sync<&actor_id_here>("b", c.id())};
}

bool is_over_everywhere(const std::vector<node>& nodes) {
  return eventually([&] {
    for (const auto& n : nodes)
      if (n.debug_info().autograd_contexts != 0 || n.debug_info().backward_passes != 0)
        return false;
    return true;
  });
}

// Whoever has just told one something may still have its handle when its context is over.
bool have_free_actors(const std::vector<node>& nodes, std::size_t count) {
  return eventually([&] {
    return std::all_of(nodes.begin(), nodes.end(), [&](const node& n) {
      return context_table::of(n.core()).free_actors() == count;
    });
  });
}

TEST_P(pass_actor_reuse, one_actor_serves_context_after_context) {
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

TEST_P(pass_actor_reuse, contexts_at_the_same_time_have_actors_of_their_own) {
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
  ASSERT_TRUE(have_free_actors(nodes, pass_actors::most_idle));
  const context c(nodes[0]);
  const auto [a, b] = pass_through_b(nodes[0], c);
  EXPECT_TRUE(here.contains(a));
  EXPECT_TRUE(there.contains(b));
  shut_down(nodes);
}

TEST_P(pass_actor_reuse, one_that_somebody_still_holds_is_left_alone) {
  auto nodes = start({"a", "b"});
  pass_actor held;
  std::uint64_t old = 0;
  {
    const context c(nodes[0]);
    pass_through_b(nodes[0], c);
    held = actor_of(nodes[0], c);
    old = c.id();
  }
  ASSERT_TRUE(is_over_everywhere(nodes));
  const context c(nodes[0]);
  EXPECT_NE(pass_through_b(nodes[0], c).first, id_of(held));
  // It says what has become of its context, and harms no other.
  gradients_arrive late;
  late.pass.context = old;
  late.pass.number = 1;
  const auto why = fault_of<unknown_context>([&] { request(held, late).get(); });
  EXPECT_NE(why.text.find(std::to_string(old)), std::string::npos) << why.text;
  send(held, forget_pass{old, 1});
  pass_through_b(nodes[0], c);
  shut_down(nodes);
}

// Late words for a context that is over come to the actor of another one.
TEST_P(pass_actor_reuse, it_takes_no_words_for_another_context) {
  auto nodes = start({"a", "b"});
  const context c(nodes[0]);
  pass_through_b(nodes[0], c);
  const auto actor = actor_of(nodes[0], c);
  gradients_arrive stray;
  stray.pass.context = c.id() + 1;
  stray.pass.number = 1;
  EXPECT_THROW(request(actor, stray).get(), unknown_context);
  send(actor, forget_pass{c.id() + 1, 1});
  pass_through_b(nodes[0], c);
  shut_down(nodes);
}

// Its actor runs that hook, and is free only afterwards.
TEST_P(pass_actor_reuse, a_hook_ends_its_context_and_begins_another) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 20; ++i) {
    const context c(nodes[0]);
    const auto x = torch::ones({3}, torch::requires_grad());
    auto y = nodes[0].rpc_sync<&twice>("b", x);
    std::uint64_t own = 0, others = 0;
    y.register_hook([&](const at::Tensor&) {
      own = id_of(actor_of(nodes[0], c));
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
