// Requests to actors in distributed autograd contexts: recorded, carried to the handler, released.

#include "tests/autograd/context/asked_actors.hpp"

#include <torch/types.h>

#include <caf/scoped_actor.hpp>

#include "tests/autograd/context/no_contexts.hpp"

namespace troupe::test {
namespace {

using autograd::context;

class actors_in_contexts : public on_networks {};
TROUPE_ON_NETWORKS(actors_in_contexts);

layer layer_on(const node& from, std::uint32_t rank, answers_by how = answers_by::value,
               const layer& next = {}) {
  return from.spawn_on<tripling>(rank, how, next);
}

layer own_layer() { return this_node().spawn(tripling, answers_by::value, layer{}); }

// A call, an actor, a loss that has the values of both: 2 (4 + 8), and 2 * 4 if the answer were a
// leaf.
struct octuple {
  at::Tensor x;
};
TROUPE_MESSAGE(octuple, x)
using octupling = actor<answers<octuple, at::Tensor>>;
octupling::behavior_type octuples() {
  return {[](const octuple& what) { return 8 * what.x; }};
}

TEST_P(actors_in_contexts, a_chain_of_a_call_an_actor_and_a_loss) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto remote = nodes[0].spawn_on<octuples>(rank);
    const auto x = leaf(1);
    const context c(nodes[0]);
    const auto y = nodes[0].rpc_sync<&twice>("b", x);
    const auto z = troupe::request(remote, octuple{y}).get();
    EXPECT_FALSE(z.is_leaf());
    c.backward({(4 * y + z).sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(24))) << c.get_gradients()[x];
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// From each node to each, also the asker's own.
TEST_P(actors_in_contexts, answers_of_all_kinds) {
  auto nodes = start({"a", "b", "c"});
  for (const auto how : all_ways)
    for (std::uint32_t first = 0; first < 3; ++first)
      for (std::uint32_t second = 0; second < 3; ++second) {
        const auto last = layer_on(nodes[0], second);
        const auto asked = layer_on(nodes[0], first, how, last);
        const auto x = leaf(2);
        const context c(nodes[0]);
        const auto y = troupe::request(asked, forward{x}).get();
        c.backward({(y * y).sum()});
        const auto factor = factor_of(how);
        EXPECT_TRUE(torch::equal(y, all(2 * factor)));
        EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2 * 2 * factor * factor)))
            << "way " << static_cast<int>(how) << ", ranks " << first << " and " << second << ": "
            << c.get_gradients()[x];
      }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// a -> b -> c -> b -> a: each delegates to the next one, the last answers the first.
TEST_P(actors_in_contexts, delegated_several_times) {
  auto nodes = start({"a", "b", "c"});
  auto asked = layer_on(nodes[2], 0);  // handles are of the node that asks
  for (const std::uint32_t rank : {1u, 2u, 2u, 1u, 0u})
    asked = layer_on(nodes[2], rank, answers_by::delegation, asked);
  const auto x = leaf(2);
  {
    const context c(nodes[2]);
    const auto from_c = nodes[2].rpc_sync<&own_layer>(0);  // a handle that has travelled
    const auto y = troupe::request(asked, forward{x}).get();
    c.backward({(y + troupe::request(from_c, forward{x}).get()).sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3 * 3 * 3 * 3 * 3 * 3 + 3)));
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(actors_in_contexts, handlers_work_in_the_asker_s_context_and_in_no_other) {
  auto nodes = start({"a", "b"});
  {
    const std::vector<layer> layers{layer_on(nodes[0], 0), layer_on(nodes[0], 1)};
    // An actor that Troupe has not made has the context of what `request` asks.
    // (The unit: without arguments CAF follows a null pointer to none.)
    const layer plain = nodes[0].system().spawn(
        [](layer::pointer self, caf::unit_t) { return tripling(self, answers_by::value, {}); },
        caf::unit);
    for (const auto& one : {layers[0], layers[1], plain}) {
      const auto where = [&] { return troupe::request(one, which_context()); };
      for (int i = 0; i < 20; ++i) {  // some of them in one go
        const context outer(nodes[0]);
        const auto in_outer = where();
        {
          const context inner(nodes[0]);
          const auto in_inner = where();
          const auto in_none = [&] {
            const autograd::within none(0);
            return where();
          }();
          EXPECT_EQ(in_inner.get(), inner.id());
          EXPECT_EQ(in_none.get(), 0u);
        }
        EXPECT_EQ(where().get(), outer.id());
        EXPECT_EQ(in_outer.get(), outer.id());
      }
      EXPECT_EQ(where().get(), 0u);
    }
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// By CAF's own means, between actors of one node.
struct whose {};
TROUPE_MESSAGE(whose)
struct whose_here {};
TROUPE_MESSAGE(whose_here)
struct look {};
TROUPE_MESSAGE(look)
using contexts_seen = std::vector<std::uint64_t>;
using asker =
    actor<answers<whose, contexts_seen>, answers<whose_here, std::uint64_t>, accepts<look>>;

asker::behavior_type asks_for_contexts(asker::pointer self, asker other) {
  const auto looked = std::make_shared<contexts_seen>();
  return {
      // Its own, that of the actor it requests from, its own again in the answer, and that of
      // a message without an answer.
      [=](whose) -> caf::result<contexts_seen> {
        auto promise = self->make_response_promise<contexts_seen>();
        const auto mine = autograd::current_context();
        self->send(other, look());
        self->request(other, caf::infinite, whose_here()).then([=](std::uint64_t others) mutable {
          promise.deliver(contexts_seen{mine, others, autograd::current_context()});
        });
        return promise;
      },
      [=](whose_here) {
        if (looked->empty() || looked->back() != 0)
          throw std::logic_error("a message in a context");
        return autograd::current_context();
      },
      [=](look) { looked->push_back(autograd::current_context()); },
  };
}

TEST_P(actors_in_contexts, caf_s_own_requests_take_them_along) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t first : {0u, 1u})
    for (const std::uint32_t second : {0u, 1u}) {
      const auto last = nodes[0].spawn_on<asks_for_contexts>(second, asker{});
      const auto asked = nodes[0].spawn_on<asks_for_contexts>(first, last);
      const context c(nodes[0]);
      EXPECT_EQ(troupe::request(asked, whose()).get(), contexts_seen(3, c.id()));
    }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// Answers later, from a handler of another message.
struct keep_back {};
TROUPE_MESSAGE(keep_back)
struct let_go {};
TROUPE_MESSAGE(let_go)
struct how_many {};
TROUPE_MESSAGE(how_many)
using batching =
    actor<answers<keep_back, int>, answers<let_go, int>, answers<how_many, std::uint64_t>>;
batching::behavior_type answers_in_batches(batching::pointer self) {
  const auto kept = std::make_shared<std::vector<caf::typed_response_promise<int>>>();
  return {
      [=](keep_back) {
        kept->push_back(self->make_response_promise<int>());
        return kept->back();
      },
      [=](let_go) {
        for (auto& one : *kept) one.deliver(1);
        kept->clear();
        return 1;
      },
      [=](how_many) -> std::uint64_t { return kept->size(); },
  };
}

// The contexts before and after, by CAF's own means; an answer that never comes is a limit's.
struct ask_it {
  bool limited = false;
};
TROUPE_MESSAGE(ask_it, limited)
using asks_batches = actor<answers<ask_it, contexts_seen>>;
asks_batches::behavior_type asks_a_batch(asks_batches::pointer self, batching whom) {
  return {[=](const ask_it& how) {
    auto promise = self->make_response_promise<contexts_seen>();
    const auto before = autograd::current_context();
    auto answer = [=]() mutable {
      promise.deliver(contexts_seen{before, autograd::current_context()});
    };
    const caf::duration limit = how.limited ? caf::duration(1ms) : caf::duration(caf::infinite);
    self->request(whom, limit, keep_back())
        .then([=](int) mutable { answer(); }, [=](const caf::error&) mutable { answer(); });
    return promise;
  }};
}

TEST_P(actors_in_contexts, caf_s_own_answers_arrive_in_the_context_of_their_requests) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto batch = nodes[0].spawn_on<answers_in_batches>(rank);
    const auto asked = nodes[0].spawn(asks_a_batch, batch);
    const auto all_kept = [&](std::uint64_t n) {
      return eventually([&] { return troupe::request(batch, how_many()).get() == n; });
    };
    const autograd::within none(0);
    const auto in_none = troupe::request(asked, ask_it());
    ASSERT_TRUE(all_kept(1));
    {
      const context c(nodes[0]);
      const auto in_c = troupe::request(asked, ask_it());
      ASSERT_TRUE(all_kept(2));
      const context d(nodes[0]);
      const auto in_d = troupe::request(asked, ask_it());
      ASSERT_TRUE(all_kept(3));
      troupe::request(batch, let_go()).get();  // in d
      EXPECT_EQ(in_none.get(), contexts_seen(2, 0));
      EXPECT_EQ(in_c.get(), contexts_seen(2, c.id()));
      EXPECT_EQ(in_d.get(), contexts_seen(2, d.id()));
    }
    {
      const context c(nodes[0]);
      const auto in_c = troupe::request(asked, ask_it());
      ASSERT_TRUE(all_kept(1));
      const autograd::within nobody(0);
      troupe::request(batch, let_go()).get();
      EXPECT_EQ(in_c.get(), contexts_seen(2, c.id()));
    }
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(actors_in_contexts, caf_s_own_limits_expire_there_too) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto batch = nodes[0].spawn_on<answers_in_batches>(rank);
    const auto asked = nodes[0].spawn(asks_a_batch, batch);
    {
      const context c(nodes[0]);
      EXPECT_EQ(troupe::request(asked, ask_it{true}).get(), contexts_seen(2, c.id()));
    }
    troupe::request(batch, let_go()).get();
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(actors_in_contexts, caf_s_blocking_actors_leave_the_thread_in_its_own) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t rank : {0u, 1u}) {
    const auto remote = layer_on(nodes[0], rank);
    const auto x = leaf(2);
    const caf::scoped_actor self(nodes[0].system());
    const context c(nodes[0]);
    at::Tensor y;
    std::uint64_t received_in = 0;
    self->request(remote, caf::infinite, forward{x})
        .receive(
            [&](const at::Tensor& answer) {
              y = answer;
              received_in = autograd::current_context();
            },
            [](const caf::error& why) { ADD_FAILURE() << caf::to_string(why); });
    EXPECT_EQ(received_in, c.id());
    EXPECT_EQ(autograd::current_context(), c.id());
    EXPECT_FALSE(nodes[0].rpc_sync<&twice>("b", x).is_leaf());
    c.backward({y.sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3)));
  }
  EXPECT_EQ(autograd::current_context(), 0u);
  expect_no_contexts(nodes);
  shut_down(nodes);
}

// The handle of an actor of another node that has not travelled, since both are in this process.
TEST_P(actors_in_contexts, other_nodes_are_in_those_of_which_they_have_messages) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto there = nodes[1].spawn(tripling, answers_by::call, layer{});
    const auto x = leaf(1);
    const context c(nodes[0]);
    EXPECT_EQ(troupe::request(there, which_context()).get(), 0u);
    EXPECT_TRUE(torch::equal(troupe::request(there, forward{x}).get(), all(3 * 2)));
    nodes[0].rpc_sync<&twice>("b", x);
    EXPECT_EQ(troupe::request(there, which_context()).get(), c.id());
  }
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(actors_in_contexts, with_grad_mode_off_nothing_is_recorded_but_the_context_travels) {
  auto nodes = start({"a", "b"});
  const auto remote = layer_on(nodes[0], 1);
  {
    const context c(nodes[0]);
    const at::NoGradGuard off;
    EXPECT_TRUE(troupe::request(remote, forward{leaf(1)}).get().is_leaf());
    EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 1u);
  }
  expect_no_contexts(nodes);
  EXPECT_TRUE(troupe::request(remote, forward{leaf(1)}).get().is_leaf());  // outside of any
  shut_down(nodes);
}

// Errors, limits and lost nodes.
struct fail_with {
  int how;
};
TROUPE_MESSAGE(fail_with, how)
struct fail_later {
  at::Tensor x;
};
TROUPE_MESSAGE(fail_later, x)
using failing = actor<answers<fail_with, at::Tensor>, answers<fail_later, at::Tensor>>;
failing::behavior_type fails(failing::pointer self) {
  return {
      [](const fail_with& what) -> caf::result<at::Tensor> {
        if (what.how == 0) throw invalid_argument("not this one");
        return caf::make_error(caf::sec::invalid_argument, "not this one");
      },
      [=](const fail_later& what) {
        auto promise = self->make_response_promise<at::Tensor>();
        this_node().sleep_for(what.x.defined() ? 20s : 0s).then([promise]() mutable {
          promise.deliver(caf::make_error(caf::sec::end_of_stream));
        });
        return promise;
      },
  };
}

TEST_P(actors_in_contexts, what_fails_leaves_nothing_behind) {
  auto nodes = start({"a", "b"});
  for (const std::uint32_t rank : {0u, 1u}) {
    const context c(nodes[0]);
    const auto one = nodes[0].spawn_on<fails>(rank);
    EXPECT_THROW(troupe::request(one, fail_with{1}).get(), remote_error);
    EXPECT_THROW(troupe::request(one, fail_later{}).get(), remote_error);
    EXPECT_THROW(troupe::request(one, fail_later{leaf(1)}, timeout(20ms)).get(), rpc_timeout);
    EXPECT_THROW(troupe::request(one, fail_with{0}).get(), invalid_argument);
    EXPECT_THROW(troupe::request(one, fail_with{0}).get(), error);  // it has ended
    const auto x = leaf(2);
    c.backward({troupe::request(layer_on(nodes[0], rank), forward{x}).get().sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3)));
  }
  expect_no_contexts(nodes);
  for (auto& n : nodes) n.shutdown(false);
}

TEST_P(actors_in_contexts, a_lost_node_takes_nothing_else_along) {
  auto nodes = start({"a", "b", "c"});
  {
    const auto lost = nodes[0].spawn_on<fails>(2);
    const auto through_lost = layer_on(nodes[0], 1, answers_by::promise, layer_on(nodes[0], 2));
    const auto there = layer_on(nodes[0], 1);
    const auto x = leaf(2);
    const context c(nodes[0]);
    const auto waits = troupe::request(lost, fail_later{x});
    EXPECT_TRUE(eventually([&] { return nodes[2].debug_info().autograd_contexts == 1; }));
    nodes[2].shutdown(false);
    // The node ends in parts: its handler may drop the request, which is a remote_error, before the
    // connection is closed.
    try {
      waits.get();
      ADD_FAILURE() << "a request to a lost node was answered";
    } catch (const error& e) {
      EXPECT_TRUE(e.code() == errc::peer_lost || e.code() == errc::remote_error) << e.what();
    }
    EXPECT_THROW(troupe::request(through_lost, forward{x}).get(), peer_lost);
    c.backward({troupe::request(there, forward{x}).get().sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3)));
  }
  nodes.pop_back();
  expect_no_contexts(nodes);
  shut_down(nodes);
}

TEST_P(actors_in_contexts, a_request_after_the_end_is_refused) {
  auto nodes = start({"a", "b"});
  const auto remote = layer_on(nodes[0], 1);
  std::uint64_t id = 0;
  {
    const context c(nodes[0]);
    id = c.id();
    troupe::request(remote, forward{leaf(1)}).get();
  }
  expect_no_contexts(nodes);
  {
    const autograd::within late(id);
    EXPECT_THROW(troupe::request(remote, forward{leaf(1)}).get(), unknown_context);
    EXPECT_EQ(nodes[1].debug_info().autograd_contexts, 0u);
  }
  troupe::request(remote, forward{leaf(1)}).get();
  shut_down(nodes);
}

// What waits in the mailbox of an actor when the context ends is answered all the same.
struct hold {};
TROUPE_MESSAGE(hold)
using held_layer = actor<answers<hold>, answers<forward, at::Tensor>>;
held_layer::behavior_type holds_up() {
  return {
      [](hold) { shared_door::current()->pass(); },
      [](const forward& what) { return this_node().rpc_sync<&twice>("a", what.x); },
  };
}

TEST_P(actors_in_contexts, that_end_while_a_request_waits) {
  auto nodes = start({"a", "b"});
  const auto remote = nodes[0].spawn_on<holds_up>(1);
  shared_door door;
  const auto held = troupe::request(remote, hold());
  EXPECT_TRUE(door->wait_for(1));
  future<at::Tensor> answer;
  {
    const context c(nodes[0]);
    answer = troupe::request(remote, forward{leaf(1)});
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().autograd_contexts == 1; }));
  }
  expect_no_contexts(nodes);
  door->open();
  held.get();
  EXPECT_THROW(answer.get(), unknown_context);
  shut_down(nodes);
}

layer::behavior_type delivers_without_grad(layer::pointer self) {
  return {
      [=](const forward& what) -> caf::result<at::Tensor> {
        auto promise = self->make_response_promise<at::Tensor>();
        const auto y = 3 * what.x;
        const at::NoGradGuard off;
        promise.deliver(y);
        return promise;
      },
      [](which_context) { return autograd::current_context(); },
  };
}

// The sender of a request decides whether tensors are recorded.
TEST_P(actors_in_contexts, answers_are_recorded_whatever_brings_them) {
  auto nodes = start({"a", "b"});
  const auto remote = nodes[0].spawn_on<delivers_without_grad>(1);
  {
    const context c(nodes[0]);
    const auto x = leaf(1);
    c.backward({troupe::request(remote, forward{x}).get().sum()});
    EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(3)));
  }
  shut_down(nodes);
}

void wait_behind_door() { shared_door::current()->pass(); }

// A thread of the program leads the network while it waits, and takes what comes for others.
TEST_P(actors_in_contexts, answers_do_not_depend_on_the_mode_of_the_thread_that_takes_them) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 5; ++i) {
    const shared_door door;
    std::thread other([&] {
      const c10::InferenceMode on;
      nodes[0].rpc_sync<&wait_behind_door>("b", timeout(0ms));
      EXPECT_TRUE(c10::InferenceMode::is_enabled());
    });
    EXPECT_TRUE(door->wait_for(1));
    std::this_thread::sleep_for(10ms);  // so that it is likely to lead
    {
      const context c(nodes[0]);
      const auto x = leaf(1);
      const auto answer = nodes[0].rpc_async<&twice>("b", x);
      // Without leading here.
      EXPECT_TRUE(eventually([&] { return answer.ready(); }));
      EXPECT_FALSE(answer.get().is_inference());
      c.backward({answer.get().sum()});
      EXPECT_TRUE(torch::equal(c.get_gradients()[x], all(2)));
    }
    door->open();
    other.join();
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
