// Each handler starts with a clean thread, whatever the one before has left there.
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>

#include <set>
#include <vector>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {

struct spoil_it {};
TROUPE_MESSAGE(spoil_it)
struct look {};
TROUPE_MESSAGE(look)
struct spoil_and_look {};
TROUPE_MESSAGE(spoil_and_look)
struct first_look {};
TROUPE_MESSAGE(first_look)
struct what_was_seen {};
TROUPE_MESSAGE(what_was_seen)

namespace {

class torch_thread_state : public on_networks {};
TROUPE_ON_NETWORKS(torch_thread_state);

std::mutex threads_mutex;
std::set<std::thread::id> spoiled;
int looked_on_spoiled = 0;

void spoil() {
  // Never destroyed: what a handler with a bug would leave behind.
  static auto& left = *new std::vector<c10::InferenceMode*>;
  auto* mode = new c10::InferenceMode(true);
  c10::GradMode::set_enabled(false);
  std::lock_guard lock(threads_mutex);
  left.push_back(mode);
  spoiled.insert(std::this_thread::get_id());
}

bool is_clean() {
  {
    std::lock_guard lock(threads_mutex);
    looked_on_spoiled += spoiled.contains(std::this_thread::get_id());
  }
  return c10::GradMode::is_enabled() && !c10::InferenceMode::is_enabled() &&
         !at::ones({2}).is_inference() && (at::ones({2}).requires_grad_() * 2).requires_grad();
}

void forget_threads() {
  std::lock_guard lock(threads_mutex);
  spoiled.clear();
  looked_on_spoiled = 0;
}

// A hundred rounds, and as many more as it takes until one has looked where another had spoilt:
// which thread runs a handler is not for a test to choose.
bool after_rounds(const std::function<void()>& round) {
  for (int i = 0; i < 100; ++i) round();
  return eventually([&] {
    round();
    const std::lock_guard lock(threads_mutex);
    return looked_on_spoiled > 0;
  });
}

using messy = actor<answers<spoil_it>, answers<look, bool>, answers<spoil_and_look, bool>>;
messy::behavior_type be_messy(messy::pointer self) {
  return {[](const spoil_it&) { spoil(); }, [](const look&) { return is_clean(); },
          // Its next two messages, which it turns to without leaving the thread.
          [self](const spoil_and_look&) {
            self->send(self, spoil_it{});
            return self->delegate(messy(self), look{});
          }};
}

// Its first message comes in the turn in which it is made.
enum sight { nothing_yet, clean, not_clean };
using newborn = actor<accepts<first_look>, answers<what_was_seen, int>>;
newborn::behavior_type be_born_messy(newborn::pointer self) {
  spoil();
  self->send(self, first_look{});
  const auto seen = std::make_shared<sight>(nothing_yet);
  return {[seen](const first_look&) { *seen = is_clean() ? clean : not_clean; },
          [seen](const what_was_seen&) { return static_cast<int>(*seen); }};
}

// Waits with gradients off. Are they still off afterwards?
bool keeps_its_own(const std::string& other) {
  const at::NoGradGuard off;
  auto clean = this_node().rpc_sync<&is_clean>(other);
  return clean && !c10::GradMode::is_enabled();
}

TEST_P(torch_thread_state, is_clean_for_functions) {
  auto nodes = start({"a", "b"});
  forget_threads();
  EXPECT_TRUE(after_rounds([&] {
    nodes[0].rpc_sync<&spoil>("b");
    EXPECT_TRUE(nodes[0].rpc_sync<&is_clean>("b"));
  }));
}

TEST_P(torch_thread_state, is_clean_for_actors) {
  auto nodes = start({"a", "b"});
  forget_threads();
  auto one = nodes[0].spawn_on<be_messy>("b");
  auto two = nodes[0].spawn_on<be_messy>("b");
  EXPECT_TRUE(after_rounds([&] {
    request(one, spoil_it{}).get();
    EXPECT_TRUE(request(two, look{}).get());
    EXPECT_TRUE(request(one, look{}).get());
    EXPECT_TRUE(nodes[0].rpc_sync<&is_clean>("b"));
  }));
}

TEST_P(torch_thread_state, is_clean_for_the_next_message_of_an_actor) {
  auto nodes = start({"a", "b"});
  auto one = nodes[0].spawn_on<be_messy>("b");
  forget_threads();
  EXPECT_TRUE(after_rounds([&] { EXPECT_TRUE(request(one, spoil_and_look{}).get()); }));
}

TEST_P(torch_thread_state, is_clean_for_an_actor_that_has_just_begun) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 20; ++i) {
    const auto one = nodes[0].spawn_on<be_born_messy>("b");
    int seen = nothing_yet;
    EXPECT_TRUE(eventually([&] {
      seen = request(one, what_was_seen{}).get();
      return seen != nothing_yet;
    }));
    EXPECT_EQ(seen, clean);
  }
  shut_down(nodes);
}

TEST_P(torch_thread_state, is_clean_for_continuations) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 50; ++i) {
    nodes[0].rpc_sync<&spoil>("a");
    EXPECT_TRUE(nodes[0].rpc_async<&spoil>("b").then([] { return is_clean(); }).get());
  }
}

TEST_P(torch_thread_state, of_one_who_waits_is_its_own) {
  auto nodes = start({"a", "b"});
  EXPECT_TRUE(nodes[0].rpc_sync<&keeps_its_own>("b", "a"));
  EXPECT_TRUE(nodes[0].rpc_sync<&keeps_its_own>("a", "a"));
  {
    const at::NoGradGuard off;
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(nodes[0].rpc_sync<&is_clean>("b"));
      EXPECT_FALSE(c10::GradMode::is_enabled());
    }
  }
  EXPECT_TRUE(c10::GradMode::is_enabled());
}

}  // namespace
}  // namespace troupe::test
