// What functions and handlers can know of who calls them.
#include <caf/typed_response_promise.hpp>
#include <mutex>
#include <optional>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

struct caller_facts {
  std::string from;
  std::uint32_t rank = 0;
  std::string function;
  bool of_actor = false;
  bool has_deadline = false;
  std::int64_t left_ms = -1;
  bool cancelled = false;
};
TROUPE_MESSAGE(caller_facts, from, rank, function, of_actor, has_deadline, left_ms, cancelled)

struct who_asks {};
TROUPE_MESSAGE(who_asks)
struct who_asks_later {};
TROUPE_MESSAGE(who_asks_later)
struct who_sends {};
TROUPE_MESSAGE(who_sends)

namespace {

class knowing_the_caller : public on_networks {};
TROUPE_ON_NETWORKS(knowing_the_caller);

caller_facts now() {
  const auto call = current_call();
  caller_facts out;
  out.from = call ? call->from.name : "nobody";
  if (!call) return out;
  out.rank = call->from.id;
  out.function = call->function;
  out.of_actor = call->actor != 0;
  out.has_deadline = call->deadline.has_value();
  if (const auto left = call->time_left())
    out.left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(*left).count();
  out.cancelled = call->cancelled;
  return out;
}

caller_facts who_calls() { return now(); }
caller_facts who_calls_at(const std::string& there) {
  return this_node().rpc_sync<&who_calls>(there);
}
task<caller_facts> who_calls_after_all() {
  co_await sleep_for(2ms);
  co_return now();
}
future<caller_facts> of_a_continuation() {
  return this_node().rpc_async<&who_calls>(this_node().name()).then([](const caller_facts&) {
    return now();
  });
}

std::atomic<bool> begun{false}, noticed{false};
void run_until_given_up() {
  begun = true;
  noticed = eventually([] { return current_call()->cancelled; });
}

using reporter = actor<answers<who_asks, caller_facts>, answers<who_asks_later, caller_facts>,
                       accepts<who_sends>>;

// What the last message has brought.
std::mutex last_mutex;
std::optional<caller_facts> last;
void keep(std::optional<caller_facts> what) {
  const std::lock_guard lock(last_mutex);
  last = std::move(what);
}
std::optional<caller_facts> kept() {
  const std::lock_guard lock(last_mutex);
  return last;
}

reporter::behavior_type report_all(reporter::pointer self) {
  return {
      [](const who_asks&) { return now(); },
      [self](const who_asks_later&) {
        auto promise = self->make_response_promise<caller_facts>();
        promise.deliver(now());  // which has the sender of the message
        return promise;
      },
      [](const who_sends&) { keep(now()); },
  };
}

TEST_P(knowing_the_caller, in_functions_of_a_call) {
  auto nodes = start({"a", "b", "c"});
  for (const int to : {0, 1}) {
    const auto one = nodes[0].rpc_sync<&who_calls>(to, timeout(5min));
    EXPECT_EQ(one.from, "a");
    EXPECT_EQ(one.rank, 0u);
    EXPECT_THAT(one.function, testing::HasSubstr("who_calls"));
    EXPECT_FALSE(one.of_actor);
    EXPECT_FALSE(one.cancelled);
    EXPECT_TRUE(one.has_deadline);
    EXPECT_GT(one.left_ms, 0);
    EXPECT_LE(one.left_ms, 5 * 60'000);
    const auto endless = nodes[0].rpc_sync<&who_calls>(to, timeout(0ms));
    EXPECT_EQ(endless.from, "a");
    EXPECT_FALSE(endless.has_deadline);
  }
  const auto usual = nodes[2].rpc_sync<&who_calls>("b");
  EXPECT_EQ(usual.from, "c");
  EXPECT_EQ(usual.rank, 2u);
  EXPECT_TRUE(usual.has_deadline);
  EXPECT_LE(usual.left_ms, 60'000);
  EXPECT_EQ(nodes[0].rpc_sync<&who_calls_at>("b", std::string("c")).from, "b");
  shut_down(nodes);
}

TEST_P(knowing_the_caller, in_coroutines_and_not_in_continuations) {
  auto nodes = start({"a", "b"});
  const auto late = nodes[0].rpc_sync<&who_calls_after_all>("b", timeout(5min));
  EXPECT_EQ(late.from, "a");
  EXPECT_THAT(late.function, testing::HasSubstr("who_calls_after_all"));
  EXPECT_TRUE(late.has_deadline);
  EXPECT_LE(late.left_ms, 5 * 60'000);
  EXPECT_EQ(nodes[0].rpc_sync<&of_a_continuation>("b").from, "nobody");
  EXPECT_FALSE(current_call().has_value());
  shut_down(nodes);
}

TEST_P(knowing_the_caller, when_it_has_given_up) {
  auto nodes = start({"a", "b"});
  begun = noticed = false;
  const auto call = nodes[0].rpc_async<&run_until_given_up>("b");
  ASSERT_TRUE(eventually([] { return begun.load(); }));
  EXPECT_FALSE(noticed);
  call.cancel();
  EXPECT_TRUE(eventually([] { return noticed.load(); }));
  shut_down(nodes);
}

TEST_P(knowing_the_caller, in_handlers_of_actors) {
  auto nodes = start({"a", "b"});
  const auto there = nodes[0].spawn_on<&report_all>("b"), here = nodes[0].spawn(report_all);
  for (const auto& actor : {there, here}) {
    const auto one = request(actor, who_asks{}).get();
    EXPECT_EQ(one.from, "a");
    EXPECT_THAT(one.function, testing::HasSubstr("who_asks"));
    EXPECT_TRUE(one.of_actor);
    EXPECT_FALSE(one.has_deadline);
    const auto limited = request(actor, who_asks{}, timeout(5min)).get();
    EXPECT_EQ(limited.from, "a");
    EXPECT_TRUE(limited.has_deadline);
    EXPECT_GT(limited.left_ms, 0);
    EXPECT_LE(limited.left_ms, 5 * 60'000);
    EXPECT_EQ(request(actor, who_asks_later{}).get().from, "a");
    keep(std::nullopt);
    send(actor, who_sends{});
    ASSERT_TRUE(eventually([] { return kept().has_value(); }));
    EXPECT_EQ(kept()->from, "a");
    EXPECT_THAT(kept()->function, testing::HasSubstr("who_sends"));
    EXPECT_FALSE(kept()->has_deadline);
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
