// Where a profile ends: threads that do something else, calls that are given up, peers that send
// nonsense, and too much of it.

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <future>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/actors/node/job.hpp"
#include "tests/actors/telemetry/profiling_testing.hpp"
#include "troupe/actors/messaging/call_control.hpp"
#include "troupe/actors/messaging/control_channel.hpp"
#include "troupe/actors/node/node_core.hpp"
#include "troupe/actors/profiling/event_collector.hpp"
#include "troupe/actors/remote/answer_state.hpp"
#include "troupe/actors/remote/remote_actors.hpp"
#include "troupe/actors/rpc/call_ranges.hpp"
#include "troupe/actors/scheduler/execution_context.hpp"

namespace troupe::test {

struct wait_first {};
TROUPE_MESSAGE(wait_first)
struct hold {
  std::string there;
};
TROUPE_MESSAGE(hold, there)
struct look {};
TROUPE_MESSAGE(look)

// In a namespace with a name, which recorded names hold.
namespace profiled {

inline int take_a_millisecond() {
  std::this_thread::sleep_for(1ms);
  return 1;
}

inline void send_profile(peer& to, std::uint64_t request,
                         const std::vector<profile_event>& events) {
  current_node()->actors().out().send_control(to, calls_channel, request, [&](encoder& out) {
    out.put(call_control::profile);
    out.put(request);
    out.put(events);
  });
}

inline int send_nonsense() {
  auto* const node = current_node();
  const auto call = current_active_call();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::vector<profile_event> all;
  for (const auto start : {least, std::int64_t{-1}, std::int64_t{0}, most})
    for (const auto duration : {most, least, std::int64_t{1}}) {
      profile_event one;
      one.name = "\xff \xc3(\n\x1b[31m \xed\xa0\x80 \xf4\x90\x80\x80 \xc3\xa4 \xe2\x82\xac";
      one.node = ~0u;
      one.thread = ~std::uint64_t{0};
      one.start_ns = start;
      one.duration_ns = duration;
      one.host_bytes = one.device_bytes = start;
      all.push_back(one);
    }
  // As the first event of a message each is the whole of the call.
  auto& caller = node->find(call.from->info.id);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::rotate(all.begin(), all.begin() + 1, all.end());
    send_profile(caller, call.request, all);
  }
  send_profile(caller, call.request, {});
  send_profile(caller, call.request + 1000, all);  // of no call
  return 7;
}

}  // namespace profiled

namespace {

class bounds_of_profiles : public on_networks {};
TROUPE_ON_NETWORKS(bounds_of_profiles);

const std::string here = "troupe::test::profiled::";

std::size_t sums_in_a_profile_of(const node& of) {
  profile one(of);
  const auto x = at::ones({2});
  (void)(x + x);
  return named(one.stop(), "aten::add").size();
}

// ---- Threads

TEST(a_profile, that_ends_on_another_thread_leaves_its_own_alone) {
  auto nodes = local_nodes({"a"});
  for (const bool memory : {false, true}) {
    auto one = std::make_unique<profile>(nodes[0], profile_options{.memory = memory});
    std::thread([&] { one = nullptr; }).join();
    const auto x = at::ones({2});
    for (int i = 0; i < 100; ++i) (void)(x + x);
    EXPECT_EQ(sums_in_a_profile_of(nodes[0]), 1u);
  }
  shut_down(nodes);
}

// The thread where collecting began turns to nothing else before it ends.
TEST(a_profile, is_freed_once_its_thread_has_ended) {
  for (const bool thread_ends_first : {false, true}) {
    std::weak_ptr<detail::event_collector> events;
    std::unique_ptr<detail::collecting> one;
    std::promise<void> began, may_end;
    std::thread thread([&] {
      const auto into = std::make_shared<detail::event_collector>(0u, profile_options{});
      events = into;
      one = std::make_unique<detail::collecting>(into);
      began.set_value();
      may_end.get_future().wait();
    });
    began.get_future().wait();
    if (!thread_ends_first) one = nullptr;
    may_end.set_value();
    thread.join();
    one = nullptr;
    EXPECT_TRUE(events.expired()) << thread_ends_first;
  }
}

std::atomic<bool> holds{false}, let_go{false};
void wait_until_let_go() {
  EXPECT_TRUE(eventually([] { return let_go.load(); }));
}
task<int> hold_a_profile(std::string there) {
  const profile never_stopped(this_node());
  const auto waited = this_node().rpc_async<&wait_until_let_go>(there);
  holds = true;
  co_await waited;
  co_return 1;
}
bool can_be_profiled() { return sums_in_a_profile_of(this_node()) == 1; }

// The thread that it has left serves others meanwhile.
TEST_P(bounds_of_profiles, end_where_a_coroutine_waits) {
  auto nodes = start({"a", "b"});
  holds = let_go = false;
  const auto held = nodes[0].rpc_async<&hold_a_profile>("b", std::string("a"));
  EXPECT_TRUE(eventually([] { return holds.load(); }));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(nodes[0].rpc_sync<&can_be_profiled>("b"));
  let_go = true;
  EXPECT_EQ(held.get(), 1);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(nodes[0].rpc_sync<&can_be_profiled>("b"));
  shut_down(nodes);
}

std::atomic<bool> all_sent{false};

using profiled_actor = actor<answers<wait_first, bool>, answers<hold, bool>, answers<look, bool>>;
profiled_actor::behavior_type profiles_itself() {
  return {[](const wait_first&) { return eventually([] { return all_sent.load(); }); },
          [](const hold& what) {
            (void)hold_a_profile(what.there);
            return holds.load();
          },
          [](const look&) { return can_be_profiled(); }};
}

// Its next message is another one's, also in the same turn.
TEST_P(bounds_of_profiles, end_where_a_handler_of_an_actor_ends) {
  auto nodes = start({"a", "b"});
  holds = let_go = all_sent = false;
  const auto self = nodes[1].spawn(profiles_itself);
  const auto first = troupe::request(self, wait_first{});
  const auto second = troupe::request(self, hold{"a"});
  const auto third = troupe::request(self, look{});
  all_sent = true;
  EXPECT_TRUE(first.get());
  EXPECT_TRUE(second.get());
  EXPECT_TRUE(third.get());
  let_go = true;
  shut_down(nodes);
}

// ---- Calls

// The answer comes while the limit passes, on threads of their own.
TEST_P(bounds_of_profiles, have_each_call_once_whatever_ends_it) {
  auto nodes = start({"a", "b"});
  profile recorded(nodes[0]);
  constexpr int rounds = 20, together = 8;
  for (int i = 0; i < rounds; ++i) {
    std::vector<future<int>> calls;
    for (int k = 0; k < together; ++k)
      calls.push_back(
          nodes[0].rpc_async<&profiled::take_a_millisecond>("b", timeout(1ms + k % 3 * 1ms)));
    for (const auto& call : calls) {
      try {
        EXPECT_EQ(call.get(), 1);
      } catch (const rpc_timeout&) {
      }
    }
  }
  EXPECT_EQ(named(recorded.stop(), "rpc_async#" + here + "take_a_millisecond(a -> b)").size(),
            std::size_t{rounds * together});
  shut_down(nodes);
}

// The thread that calls may be held up between the two.
TEST(a_call, that_ends_before_its_range_begins_is_recorded) {
  auto nodes = local_nodes({"a"});
  profile recorded(nodes[0]);
  const auto answer = std::make_shared<detail::answer_state<int>>(nodes[0].core().driver());
  std::shared_ptr<reply_sink> sink = answer;
  detail::caller_range range(sink, false);
  fault late;
  late.code = errc::rpc_timeout;
  sink->on_expiry(std::move(late));
  range.begin("late", "a", "b", 1);
  EXPECT_TRUE(answer->ready());
  EXPECT_EQ(named(recorded.stop(), "rpc_async#late(a -> b)").size(), 1u);
  shut_down(nodes);
}

// ---- What peers send

TEST_P(bounds_of_profiles, hold_what_a_peer_makes_up) {
  auto nodes = start({"a", "b"});
  profile recorded(nodes[0], {.shapes = true, .memory = true});
  EXPECT_EQ(nodes[0].rpc_sync<&profiled::send_nonsense>("b"), 7);
  const auto events = recorded.stop();
  const auto call = only(events, "rpc_sync#" + here + "send_nonsense(a -> b)");
  int remote_events = 0;
  for (const auto& one : events) {
    if (!one.remote) continue;
    ++remote_events;
    EXPECT_GE(one.duration_ns, 0);
    EXPECT_GE(one.start_ns, call.start_ns);
    EXPECT_LE(end_of(one), end_of(call));
  }
  EXPECT_GE(remote_events, 12 * 12);
  std::ostringstream out;
  write_chrome_trace(out, {{events}}, nodes[0].workers());
  const auto trace = nlohmann::json::parse(out.str(), nullptr, /*allow_exceptions=*/false);
  ASSERT_FALSE(trace.is_discarded()) << out.str();
  int nonsense = 0;
  const std::string readable = "\n\x1b[31m ", kept = " \xc3\xa4 \xe2\x82\xac";
  for (const auto& one : trace.at("traceEvents")) {
    const auto name = one.at("name").get<std::string>();
    nonsense += name.find(readable) != name.npos && name.ends_with(kept);
  }
  EXPECT_GE(nonsense, 12 * 12);
  shut_down(nodes);
}

TEST(a_collector, keeps_so_many_events_and_no_more) {
  detail::event_collector few(0, {}, true, 3);
  profile_event one;
  few.add({one, one});
  few.add(std::vector<profile_event>(5, one));
  few.add(std::move(one));
  EXPECT_EQ(few.close().size(), 3u);
  few.add(profile_event());
  EXPECT_TRUE(few.close().empty());
}

}  // namespace
}  // namespace troupe::test
