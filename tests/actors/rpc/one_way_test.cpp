// Calls that nobody waits for.

#include "troupe/actors/rpc/one_way.hpp"

#include "tests/actors/node/job.hpp"
#include "troupe/actors/node/node_core.hpp"

namespace troupe::test {
namespace {

using detail::call_one_way;

class one_way_calls : public on_networks {};
TROUPE_ON_NETWORKS(one_way_calls);

std::atomic<int> runs{0};

int run_once(int x) {
  ++runs;
  return x;
}
void run(int) { ++runs; }
void run_at_door() {
  shared_door::current()->pass();
  ++runs;
}
void run_late() {
  std::this_thread::sleep_for(100ms);
  ++runs;
}
void fail_here(int x) {
  ++runs;
  throw std::invalid_argument("not " + std::to_string(x));
}

peer& at(const node& here, const char* who) { return here.core().find(who); }

TEST_P(one_way_calls, it_runs_and_nothing_is_kept_of_it_here) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  runs = 0;
  for (int i = 0; i < 10; ++i)
    call_one_way<&run_at_door>(nodes[0].core().agent(), at(nodes[0], "b"), {});
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  EXPECT_EQ(runs, 0);
  door->open();
  EXPECT_TRUE(eventually([] { return runs == 10; }));
  shut_down(nodes);
}

// The runtimes' own words aside, one message for each call goes one way, and none comes back.
TEST_P(one_way_calls, no_answer_comes) {
  auto nodes = start({"a", "b"});
  runs = 0;
  auto& b = at(nodes[0], "b");
  EXPECT_EQ(nodes[0].rpc_sync<&run_once>("b", 1), 1);
  const auto sent = b.counted_sent.load(), received = b.counted_received.load();
  for (int i = 0; i < 10; ++i) {
    call_one_way<&run>(nodes[0].core().agent(), b, {}, i);
    call_one_way<&fail_here>(nodes[0].core().agent(), b, {}, i);
  }
  EXPECT_TRUE(eventually([] { return runs == 21; }));
  EXPECT_EQ(nodes[0].rpc_sync<&run_once>("b", 2), 2);
  EXPECT_EQ(b.counted_sent.load() - sent, 21u);
  EXPECT_EQ(b.counted_received.load() - received, 1u);
  shut_down(nodes);
}

using dweller = actor<accepts<int>>;
dweller::behavior_type dwell() {
  return {[](int) {}};
}
dweller make_one() {
  ++runs;
  return this_node().spawn(&dwell);
}
task<int> run_later(int x) {
  co_await sleep_for(1ms);
  ++runs;
  co_return x;
}

// What other programs may send: calls of any function that want no answer.
template <auto F, class... Args>
void call_without_request(const node& from, peer& to, const Args&... args) {
  from.core().agent().call(to, callable<F>::hash(), callable<F>::name, detail::no_reply_sink(), {},
                           [&](encoder& out, handle_scope&) { (out.put(args), ...); });
}

TEST_P(one_way_calls, a_result_that_nobody_wants_leaves_nothing_behind) {
  auto nodes = start({"a", "b"});
  auto& b = at(nodes[0], "b");
  EXPECT_TRUE(nodes[0].rpc_sync<&make_one>("b"));  // registers it
  EXPECT_EQ(nodes[0].rpc_sync<&run_later>("b", 1), 1);
  EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().actors_held == 0; }));
  runs = 0;
  for (int i = 0; i < 10; ++i) {
    call_without_request<&make_one>(nodes[0], b);
    call_without_request<&run_later>(nodes[0], b, i);
  }
  EXPECT_TRUE(eventually([] { return runs == 20; }));
  EXPECT_TRUE(eventually([&] {
    const auto left = nodes[1].debug_info();
    return left.actors_held == 0 && left.calls_served == 0;
  }));
  shut_down(nodes);
}

void take_dwellers(const std::vector<dweller>& some) { runs += static_cast<int>(some.size()); }
void take_references(const std::vector<rref<int>>& some) { runs += static_cast<int>(some.size()); }

// The answer confirms a handle's receiver as a holder.
TEST_P(one_way_calls, what_holds_handles_is_not_sent) {
  auto nodes = start({"a", "b"});
  auto& b = at(nodes[0], "b");
  runs = 0;
  auto& a = nodes[0].core().agent();
  call_one_way<&take_dwellers>(a, b, {}, std::vector{nodes[0].spawn(&dwell)});
  call_one_way<&take_references>(a, b, {}, std::vector{nodes[0].make_rref(7)});
  call_one_way<&take_dwellers>(a, b, {}, std::vector<dweller>{});
  call_one_way<&run>(a, b, {}, 1);
  EXPECT_TRUE(eventually([] { return runs == 1; }));
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().actors_held == 0; }));
  shut_down(nodes);
  EXPECT_EQ(runs, 1);
}

TEST_P(one_way_calls, a_graceful_shutdown_waits_for_it) {
  auto nodes = start({"a", "b"});
  runs = 0;
  call_one_way<&run_late>(nodes[0].core().agent(), at(nodes[0], "b"), {});
  shut_down(nodes);
  EXPECT_EQ(runs, 1);
}

TEST_P(one_way_calls, a_node_calls_itself) {
  auto nodes = start({"a"});
  runs = 0;
  call_one_way<&run>(nodes[0].core().agent(), at(nodes[0], "a"), {}, 1);
  EXPECT_TRUE(eventually([] { return runs == 1; }));
  shut_down(nodes);
}

TEST_P(one_way_calls, a_lost_node_or_an_ended_one_is_no_error) {
  auto nodes = start({"a", "b"});
  auto& b = at(nodes[0], "b");
  nodes[1].shutdown(false);
  EXPECT_TRUE(eventually([&] { return !b.live(); }));
  call_one_way<&run>(nodes[0].core().agent(), b, {}, 1);
  nodes[0].shutdown(false);
  call_one_way<&run>(nodes[0].core().agent(), b, {}, 1);
}

}  // namespace
}  // namespace troupe::test
