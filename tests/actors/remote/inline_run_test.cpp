// Actors of the runtime on a thread that is lent to them, and calls that a waiting thread runs
// itself.

#include "troupe/actors/remote/inline_run.hpp"

#include <ATen/core/grad_mode.h>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::test {

struct where_am_i {};
TROUPE_MESSAGE(where_am_i)
struct stay {};
TROUPE_MESSAGE(stay)
struct place {
  std::uint64_t thread = 0;
  bool clean = false;
  bool counted = false;
};
TROUPE_MESSAGE(place, thread, clean, counted)

namespace {

std::uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

class inline_run : public on_networks {};
TROUPE_ON_NETWORKS(inline_run);

using dweller = actor<answers<where_am_i, place>, answers<stay>>;

dweller::behavior_type dwell(dweller::pointer self) {
  return {
      [self](const where_am_i&) {
        const bool known = current_node_context() != nullptr && current_actor() == self->id();
        const auto& driver = *current_node_context()->driver();
        return place{this_thread(), known && c10::GradMode::is_enabled(),
                     driver.runs_here() && (driver.is_own_thread() || !driver.quiet())};
      },
      [](const stay&) { shared_door::current()->pass(); },
  };
}

TEST_P(inline_run, runs_an_idle_actor_here_and_gets_its_state_back) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  const at::NoGradGuard off;
  ASSERT_TRUE(eventually([&] {  // it may be beginning on another thread
    const auto answer = detail::request_inline(nodes[0].core(), one, where_am_i{});
    return answer.ready() && answer.get().thread == this_thread();
  }));
  for (int i = 0; i < 100; ++i) {
    const auto answer = detail::request_inline(nodes[0].core(), one, where_am_i{});
    ASSERT_TRUE(answer.ready());
    EXPECT_EQ(answer.get().thread, this_thread());
    EXPECT_TRUE(answer.get().clean);
    EXPECT_TRUE(answer.get().counted) << "a shutdown would not wait for it";
    EXPECT_FALSE(nodes[0].core().driver()->runs_here());
    EXPECT_FALSE(c10::GradMode::is_enabled());
    EXPECT_EQ(current_node_context(), nullptr);
    EXPECT_EQ(current_actor(), 0u);
  }
}

TEST_P(inline_run, leaves_a_busy_actor_to_the_thread_that_runs_it) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  future<place> answer;
  {
    const shared_door door;
    const auto staying = request(one, stay{});
    ASSERT_TRUE(door->wait_for(1));
    answer = detail::request_inline(nodes[0].core(), one, where_am_i{});
    EXPECT_FALSE(answer.ready());
  }
  EXPECT_NE(answer.get().thread, this_thread());
}

TEST_P(inline_run, is_taken_by_many_at_once) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  std::vector<int> askers(4);
  all_at_once(askers, [&](int&) {
    for (int i = 0; i < 2000; ++i)
      ASSERT_TRUE(detail::request_inline(nodes[0].core(), one, where_am_i{}).get().clean);
  });
}

TEST_P(inline_run, ends_an_actor) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  (void)detail::request_inline(nodes[0].core(), one, where_am_i{}).get();
  detail::end_inline(nodes[0].core(), caf::actor_cast<caf::strong_actor_ptr>(one));
  EXPECT_THROW(detail::request_inline(nodes[0].core(), one, where_am_i{}).get(), error);
}

TEST_P(inline_run, is_not_lent_after_the_end) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  const auto core = nodes[0].core().shared_from_this();
  nodes[0].shutdown();
  EXPECT_THROW(detail::request_inline(*core, one, where_am_i{}).get(), error);
  detail::end_inline(*core, caf::actor_cast<caf::strong_actor_ptr>(one));
}

// The actor's system is gone by then.
TEST_P(inline_run, a_request_is_not_sent_if_the_node_ends_meanwhile) {
  auto nodes = start({"a"});
  const auto one = nodes[0].spawn(&dwell);
  auto question = detail::ask_here(caf::actor_cast<caf::strong_actor_ptr>(one));
  nodes[0].shutdown();
  auto state = std::make_shared<detail::future_state<place>>(question.driver);
  EXPECT_THROW(detail::send_here(std::move(question), state, nullptr, detail::taker_of<place>,
                                 "where_am_i", {}, caf::make_message(where_am_i{})),
               not_initialized);
}

// ---- Expected calls

std::uint64_t thread_here() { return this_thread(); }
std::uint64_t other_thread_here() { return this_thread(); }

bool clean_here() { return c10::GradMode::is_enabled() && current_node_context() != nullptr; }

// Calls the caller's `thread_here`, while that waits for this.
std::uint64_t call_back(const std::string& whom, int times) {
  std::uint64_t last = 0;
  for (int i = 0; i < times; ++i) last = this_node().rpc_sync<&thread_here>(whom);
  return last;
}
std::uint64_t call_other_back(const std::string& whom) {
  return this_node().rpc_sync<&other_thread_here>(whom);
}
bool look_back(const std::string& whom) { return this_node().rpc_sync<&clean_here>(whom); }

int one_more(int x) { return x + 1; }
int deeper(const std::string& other) { return this_node().rpc_sync<&one_more>(other, 1); }
int call_deeper(const std::string& whom, const std::string& other) {
  return this_node().rpc_sync<&deeper>(whom, other);
}

void stay_here() { shared_door::current()->pass(); }
void have_stay(const std::string& whom) { this_node().rpc_sync<&stay_here>(whom, timeout(0ms)); }

template <auto... Fs>
class these final : public expected_calls {
public:
  bool contain(const opened_envelope& call) const noexcept override {
    return ((call.header().target == callable<Fs>::hash()) || ...);
  }
};

// Not where the node's own threads have taken the network, which may be so at any moment, and never
// for ever.
TEST_P(inline_run, runs_what_it_expects_while_it_waits) {
  auto nodes = start({"a", "b"});
  const these<&thread_here> expected;
  const expected_calls::scope serves(expected);
  EXPECT_TRUE(
      eventually([&] { return nodes[0].rpc_sync<&call_back>("b", "a", 3) == this_thread(); }));
}

TEST_P(inline_run, leaves_other_calls_to_the_nodes_threads) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 50; ++i) {
    const these<&thread_here> expected;
    const expected_calls::scope serves(expected);
    EXPECT_NE(nodes[0].rpc_sync<&call_other_back>("b", "a"), this_thread());
  }
  for (int i = 0; i < 50; ++i)  // the scope has ended
    EXPECT_NE(nodes[0].rpc_sync<&call_back>("b", "a", 1), this_thread());
}

TEST_P(inline_run, of_an_expected_call_is_clean) {
  auto nodes = start({"a", "b"});
  const these<&clean_here> expected;
  const expected_calls::scope serves(expected);
  const at::NoGradGuard off;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(nodes[0].rpc_sync<&look_back>("b", "a"));
    EXPECT_FALSE(c10::GradMode::is_enabled());
    EXPECT_EQ(current_node_context(), nullptr);
  }
}

TEST_P(inline_run, may_wait_in_an_expected_call) {
  auto nodes = start({"a", "b"});
  const these<&deeper> expected;
  const expected_calls::scope serves(expected);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(nodes[0].rpc_sync<&call_deeper>("b", "a", i % 2 ? "a" : "b"), 2);
}

// The network goes to another thread meanwhile.
TEST_P(inline_run, may_stay_long_in_an_expected_call) {
  auto nodes = start({"a", "b"});
  for (int i = 0; i < 5; ++i) {
    const shared_door door;
    auto waiting = std::async(std::launch::async, [&] {
      const these<&stay_here> expected;
      const expected_calls::scope serves(expected);
      nodes[0].rpc_sync<&have_stay>("b", "a", timeout(0ms));
    });
    ASSERT_TRUE(door->wait_for(1));
    for (int j = 0; j < 20; ++j) EXPECT_EQ(nodes[1].rpc_sync<&one_more>("a", j), j + 1);
    EXPECT_EQ(nodes[0].rpc_sync<&one_more>("b", 4), 5);
    door->open();
    waiting.get();
  }
}

TEST_P(inline_run, in_a_handler_runs_what_that_expects) {
  auto nodes = start({"a", "b"});
  const auto asks = [] {
    const these<&thread_here> expected;
    const expected_calls::scope serves(expected);
    std::uint64_t last = 0;
    for (int i = 0; i < 20; ++i) last = this_node().rpc_sync<&call_back>("b", "a", 3);
    return last;
  };
  for (int i = 0; i < 20; ++i) EXPECT_NE(nodes[1].rpc_sync("a", asks), 0u);
}

}  // namespace
}  // namespace troupe::test
