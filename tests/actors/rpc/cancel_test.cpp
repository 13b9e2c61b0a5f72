// Calls that their callers give up: what the caller gets, what the callee's coroutines and
// functions see.

#include <malloc.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/messaging/active_calls.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {
namespace {

class cancelling : public on_networks {};
TROUPE_ON_NETWORKS(cancelling);

// What a node's coroutines wait for until it is opened.
struct signal {
  promise<int> to;
  future<int> from = to.get_future();
};
std::unique_ptr<signal> gate;
std::atomic<int> arrived{0};
std::atomic<int> noticed{0};
std::atomic<int> cleaned{0};

void begin() {
  gate = std::make_unique<signal>();
  arrived = noticed = cleaned = 0;
}

int sum(int a, int b) { return a + b; }

// Whose future is never ready.
promise<int>& promise_of_nothing() {
  static promise<int> one;
  return one;
}

task<int> wait_at_gate(int x) {
  ++arrived;
  try {
    co_return x + co_await gate->from;
  } catch (const cancelled_error&) {
    ++noticed;
    throw;
  }
}

// Its clean-up waits as well, and is not disturbed.
task<int> clean_up_at(std::string whom) {
  ++arrived;
  const auto here = this_node();
  bool gone = false;
  try {
    co_await gate->from;
  } catch (const cancelled_error&) {
    noticed += call_cancelled();
    gone = true;
  }
  if (gone) {
    const int three = co_await here.rpc_async<&sum>(whom, 1, 2);
    co_await
        [](node n, std::string w) -> task<> { co_await n.rpc_async<&sum>(w, 1, 2); }(here, whom);
    if (three == 3 && call_cancelled()) ++cleaned;
  }
  co_return 0;
}

TEST_P(cancelling, ends_the_call_at_once_and_notifies_the_coroutine) {
  begin();
  auto nodes = start({"a", "b"});
  const auto call = nodes[0].rpc_async<&wait_at_gate>("b", 1, timeout(0ms));
  const auto copy = call;
  ASSERT_TRUE(eventually([&] { return nodes[1].debug_info().calls_served == 1; }));
  EXPECT_FALSE(call.wait_for(1ms));
  call.cancel();
  EXPECT_TRUE(copy.ready());
  const auto why = fault_of<cancelled_error>([&] { copy.get(); });
  EXPECT_EQ(why.node, "b");
  EXPECT_THAT(why.function, testing::HasSubstr("wait_at_gate"));
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  EXPECT_TRUE(eventually([&] { return noticed == 1; }));
  EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().calls_served == 0; }));
  copy.cancel();
  EXPECT_THROW(call.get(), cancelled_error);
  shut_down(nodes);
}

TEST_P(cancelling, lets_the_coroutine_clean_up) {
  begin();
  auto nodes = start({"a", "b", "c"});
  for (const int to : {0, 1}) {
    const auto call = nodes[0].rpc_async<&clean_up_at>(to, std::string("c"));
    ASSERT_TRUE(eventually([&] { return nodes[to].debug_info().calls_served == 1; }));
    call.cancel();
    EXPECT_THROW(call.get(), cancelled_error);
    EXPECT_TRUE(eventually([&] { return nodes[to].debug_info().calls_served == 0; }));
  }
  EXPECT_EQ(noticed, 2);
  EXPECT_EQ(cleaned, 2);
  shut_down(nodes);
}

task<int> inner(std::vector<std::string>& story) {
  try {
    co_return co_await gate->from;
  } catch (const cancelled_error&) {
    story.push_back("inner");
  }
  co_return 7;
}

std::vector<std::string> transcript;

task<int> middle() {
  const int x = co_await inner(transcript);
  transcript.push_back("middle " + std::to_string(x));
  throw std::out_of_range("on purpose");
}

task<int> outer() {
  ++arrived;
  try {
    co_await middle();
  } catch (const std::exception& e) {
    transcript.push_back(std::string("outer ") + e.what());
  }
  ++noticed;
  co_return 1;
}

TEST_P(cancelling, reaches_the_innermost_of_those_who_wait_for_one_another) {
  begin();
  auto nodes = start({"a", "b"});
  transcript.clear();
  const auto call = nodes[0].rpc_async<&outer>("b");
  ASSERT_TRUE(eventually([&] { return nodes[1].debug_info().calls_served == 1; }));
  call.cancel();
  ASSERT_TRUE(eventually([&] { return noticed == 1; }));
  EXPECT_EQ(transcript, (std::vector<std::string>{"inner", "middle 7", "outer on purpose"}));
  shut_down(nodes);
}

// The answer is needed to know what became of its handles.
task<counter> make_counter() {
  ++arrived;
  const auto here = this_node();
  try {
    co_await gate->from;
  } catch (const cancelled_error&) {
    ++noticed;
  }
  co_return here.spawn(count_from, 1);
}

TEST_P(cancelling, gives_back_the_handles_of_a_late_answer) {
  begin();
  auto nodes = start({"a", "b"});
  const auto call = nodes[0].rpc_async<&make_counter>("b");
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  call.cancel();
  EXPECT_TRUE(eventually([&] { return noticed == 1; }));
  EXPECT_TRUE(eventually([&] {
    return nodes[1].debug_info().calls_served == 0 && nodes[1].debug_info().actors_held == 0;
  }));
  EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", 1, 1), 2);
  EXPECT_TRUE(eventually([&] { return nodes[0].debug_info().remote_handles == 0; }));
  shut_down(nodes);
}

// ---- Functions

int run_until_cancelled() {
  ++arrived;
  while (!call_cancelled()) std::this_thread::sleep_for(1ms);
  ++noticed;
  return 1;
}
bool is_cancelled() { return call_cancelled(); }

TEST_P(cancelling, is_seen_by_a_function_that_asks) {
  begin();
  auto nodes = start({"a", "b"});
  EXPECT_FALSE(call_cancelled());
  std::vector<future<int>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(nodes[0].rpc_async<&run_until_cancelled>("b"));
  ASSERT_TRUE(eventually([&] { return arrived == 3; }));
  calls[1].cancel();
  EXPECT_TRUE(eventually([&] { return noticed == 1; }));
  EXPECT_FALSE(nodes[0].rpc_sync<&is_cancelled>("b"));
  EXPECT_FALSE(calls[0].ready());
  calls[0].cancel();
  calls[2].cancel();
  EXPECT_TRUE(eventually([&] { return noticed == 3; }));
  shut_down(nodes);
}

int pass_the_door() {
  ++arrived;
  shared_door::current()->pass();
  return 1;
}

TEST_P(cancelling, drops_a_call_that_has_not_begun) {
  rpc_options options;
  options.max_threads = 2;
  begin();
  std::vector<node> nodes;
  const shared_door door;
  nodes = start({"a", "b"}, options);
  const auto before = nodes[1].debug_info().traffic.messages_received;
  std::vector<future<int>> running;
  for (int i = 0; i < 2; ++i) running.push_back(nodes[0].rpc_async<&pass_the_door>("b"));
  ASSERT_TRUE(door->wait_for(2));
  std::vector<future<int>> waiting;
  for (int i = 0; i < 50; ++i) waiting.push_back(nodes[0].rpc_async<&pass_the_door>("b"));
  for (int i = 0; i < 49; ++i) waiting[i].cancel();
  EXPECT_FALSE(waiting[49].ready());
  const auto received = [&](std::size_t count) {
    return eventually(
        [&] { return nodes[1].debug_info().traffic.messages_received >= before + count; });
  };
  EXPECT_TRUE(received(52 + 49));
  // They are counted before they are looked at, but not after one that is sent now.
  auto last = nodes[0].rpc_async<&pass_the_door>("b");
  EXPECT_TRUE(received(52 + 49 + 1));
  door->open();
  EXPECT_EQ(waiting[49].get_for(time_limit), 1);
  EXPECT_EQ(last.get_for(time_limit), 1);
  for (int i = 0; i < 49; ++i) EXPECT_THROW(waiting[i].get(), cancelled_error);
  shut_down(nodes);
  // Real networks may bring a note after its call has begun.
  EXPECT_LT(arrived, 53);
}

future<int> at_third(const std::string& whom) {
  return this_node().rpc_async<&wait_at_gate>(whom, 1, timeout(0ms));
}

TEST_P(cancelling, goes_on_to_the_call_that_the_answer_comes_from) {
  begin();
  auto nodes = start({"a", "b", "c"});
  const auto call = nodes[0].rpc_async<&at_third>("b", std::string("c"));
  ASSERT_TRUE(eventually([&] { return nodes[2].debug_info().calls_served == 1; }));
  call.cancel();
  EXPECT_TRUE(eventually([&] { return noticed == 1; }));
  for (const auto& n : nodes)
    EXPECT_TRUE(eventually(
        [&] { return n.debug_info().calls_served == 0 && n.debug_info().calls_in_flight == 0; }));
  shut_down(nodes);
}

// ---- At the caller

TEST_P(cancelling, of_what_is_ready_changes_nothing) {
  auto nodes = start({"a", "b"});
  const auto call = nodes[0].rpc_async<&sum>("b", 1, 2);
  EXPECT_EQ(call.get(), 3);
  call.cancel();
  EXPECT_EQ(call.get(), 3);
  for (int i = 0; i < 200; ++i) {  // at about the time of the answer
    const auto racing = nodes[0].rpc_async<&sum>("b", i, 1);
    if (i % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(i));
    racing.cancel();
    try {
      EXPECT_EQ(racing.get(), i + 1);
    } catch (const cancelled_error&) {
    }
  }
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  shut_down(nodes);
  call.cancel();
  EXPECT_THROW(future<int>().cancel(), invalid_argument);
}

TEST_P(cancelling, ends_a_call_that_waits_for_its_arguments) {
  begin();
  auto nodes = start({"a", "b"});
  promise<int> argument;
  const auto call = nodes[0].rpc_async<&wait_at_gate>("b", argument.get_future());
  call.cancel();
  const auto why = fault_of<cancelled_error>([&] { call.get(); });
  EXPECT_EQ(why.node, "b");
  EXPECT_THAT(why.function, testing::HasSubstr("wait_at_gate"));
  argument.set_value(1);
  const auto made = nodes[0].rpc_async<&wait_at_gate>("b", argument.get_future());
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  made.cancel();
  EXPECT_THROW(made.get(), cancelled_error);
  EXPECT_TRUE(eventually([&] { return noticed == 1; }));
  shut_down(nodes);
  EXPECT_EQ(arrived, 1);
}

TEST_P(cancelling, of_a_request_leaves_the_actor_alone) {
  auto nodes = start({"a", "b"});
  for (const int where : {0, 1}) {
    const auto there = nodes[0].spawn_on<count_from>(where, 10);
    const auto question = request(there, add{5});
    question.cancel();
    EXPECT_EQ(request(there, add{1}).get(), 16);
    EXPECT_TRUE(question.ready());
  }
  shut_down(nodes);
}

TEST(futures_that_are_given_up, end_alone) {
  promise<int> to;
  const auto from = to.get_future();
  int run = 0;
  const auto next = from.then([&](int x) { return ++run + x; });
  const auto both = when_all(std::vector{from, next});
  both.cancel();
  next.cancel();
  EXPECT_THROW(both.get(), cancelled_error);
  EXPECT_THROW(next.get(), cancelled_error);
  EXPECT_FALSE(from.ready());
  to.set_value(1);
  EXPECT_EQ(from.get(), 1);
  EXPECT_EQ(run, 0);

  promise<int> unwanted;
  EXPECT_FALSE(unwanted.cancelled());
  unwanted.get_future().cancel();
  EXPECT_TRUE(unwanted.cancelled());
  unwanted.set_value(1);
  EXPECT_THROW(unwanted.get_future().get(), cancelled_error);
}

// ---- Tasks

TEST(tasks_that_are_cancelled, throw_where_they_wait) {
  begin();
  const auto waiting = wait_at_gate(1);
  EXPECT_FALSE(waiting.ready());
  waiting.cancel();
  EXPECT_THROW(waiting.get(), cancelled_error);
  waiting.cancel();
  gate->to.set_value(1);
  EXPECT_EQ(noticed, 1);
}

// Waits for the gate twice, and for one that is ready.
task<int> twice_at_gate() {
  int thrown = 0;
  for (int i = 0; i < 2; ++i) try {
      co_await gate->from;
    } catch (const cancelled_error&) {
      ++thrown;
    }
  co_return thrown;
}

TEST(tasks_that_are_cancelled, throw_once) {
  begin();
  const auto waiting = twice_at_gate();
  waiting.cancel();
  waiting.cancel();
  EXPECT_FALSE(waiting.ready());
  gate->to.set_value(1);
  EXPECT_EQ(waiting.get(), 1);
}

// Blocks, and so does not wait as coroutines do, at first or after it has waited.
task<int> block_then_wait(bool at_first) {
  const auto here = this_node();
  ++arrived;
  if (!at_first) co_await gate->from;
  shared_door::current()->pass();
  co_await future<int>(gate->from);
  try {
    co_await promise_of_nothing().get_future();
  } catch (const cancelled_error&) {
    ++noticed;
  }
  cleaned += co_await here.rpc_async<&sum>(here.name(), 0, 1);
  co_return 0;
}

TEST_P(cancelling, reaches_a_coroutine_that_runs_when_it_waits) {
  for (const bool at_first : {true, false}) {
    begin();
    std::vector<node> nodes;
    const shared_door door;
    nodes = start({"a", "b"});
    const auto call = nodes[0].rpc_async<&block_then_wait>("b", at_first);
    ASSERT_TRUE(eventually([&] { return arrived == 1; }));
    gate->to.set_value(1);
    ASSERT_TRUE(door->wait_for(1));
    call.cancel();
    door->open();
    EXPECT_TRUE(eventually([&] { return cleaned == 1; }));
    EXPECT_EQ(noticed, 1);
    EXPECT_TRUE(eventually([&] { return nodes[1].debug_info().calls_served == 0; }));
    shut_down(nodes);
  }
}

// The outer one is cancelled while the inner one runs; it waits only afterwards.
TEST_P(cancelling, is_left_by_an_inner_coroutine_that_waits_no_more_to_the_outer) {
  begin();
  std::vector<node> nodes;
  const shared_door door;
  nodes = start({"a"});
  const auto inner_one = [](node n) -> task<int> {
    co_await gate->from;
    shared_door::current()->pass();
    co_return static_cast<int>(n.rank());
  };
  const auto outer_one = [&](node n) -> task<int> {
    co_await inner_one(n);
    try {
      co_await promise_of_nothing().get_future();
    } catch (const cancelled_error&) {
      co_return 1;
    }
    co_return 2;
  };
  const auto both = outer_one(nodes[0]);
  const auto thread = std::async(std::launch::async, [] { gate->to.set_value(1); });
  ASSERT_TRUE(door->wait_for(1));
  both.cancel();
  door->open();
  EXPECT_EQ(both.get_for(time_limit), 1);
  shut_down(nodes);
}

TEST(tasks_that_are_cancelled, are_forgotten_by_what_they_waited_for) {
  begin();
  std::vector<task<int>> others;
  for (int i = 0; i < 100; ++i) others.push_back(wait_at_gate(i));
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 10'000; ++i) {
    const auto waiting = wait_at_gate(i);
    waiting.cancel();
    EXPECT_THROW(waiting.get(), cancelled_error);
  }
  const auto after = mallinfo2().uordblks;
  EXPECT_LT(after, before + 100'000);
  gate->to.set_value(1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(others[static_cast<std::size_t>(i)].get(), i + 1);
}

// ---- What the callee remembers

TEST(active_calls, are_cancelled_by_their_callers_only) {
  const peer a({"a", 0}, 1, {}), b({"b", 1}, 1, {}), b_again({"b", 1}, 2, {});
  active_calls calls;
  const auto answer = promise<int>().get_future().shared();
  const std::uint64_t id = std::uint64_t{3} << 32 | 7;
  EXPECT_FALSE(calls.remembers({&b, id}));
  EXPECT_TRUE(calls.add({&b, id}, answer));
  for (const active_call& other :
       {active_call{&a, id}, active_call{&b_again, id}, active_call{&b, id + 1}}) {
    EXPECT_EQ(calls.cancel(other), nullptr);
    EXPECT_FALSE(calls.cancelled({&b, id}));
  }
  EXPECT_EQ(calls.cancel({&b, id}), answer);
  EXPECT_TRUE(calls.cancelled({&b, id}));
  EXPECT_EQ(calls.cancel({&b, id}), nullptr);
  calls.remove({&b, id});
  EXPECT_EQ(calls.size(), 0u);
  EXPECT_EQ(calls.cancel({&b, id}), nullptr);
  // Before it comes.
  EXPECT_EQ(calls.cancel({&b, id + 2}), nullptr);
  EXPECT_TRUE(calls.remembers({&b, id + 2}));
  EXPECT_FALSE(calls.add({&b, id + 2}, answer));
}

TEST(active_calls, remember_what_waits_whatever_comes) {
  const peer a({"a", 0}, 1, {});
  active_calls calls;
  const auto answer = promise<int>().get_future().shared();
  EXPECT_TRUE(calls.add({&a, 1}, answer));
  EXPECT_EQ(calls.cancel({&a, 1}), answer);
  for (std::uint64_t i = 0; i < 100'000; ++i) calls.cancel({&a, 1'000'000 + i});
  EXPECT_TRUE(calls.cancelled({&a, 1}));
  for (std::uint64_t i = 96'000; i < 100'000; ++i)
    EXPECT_TRUE(calls.remembers({&a, 1'000'000 + i})) << i;
}

// ---- On a bad network

task<int> relay(int depth) {
  const auto here = this_node();
  if (depth == 0) co_return co_await gate->from;
  co_return 1 + co_await here.rpc_async<&relay>((here.rank() + 1) % here.world_size(), depth - 1);
}

// Calls that are cancelled at any moment: all come to an end, and nothing is left.
std::uint64_t cancel_many(std::uint64_t seed) {
  simulation_options bad{.seed = seed};
  bad.network.links.loss = 0.1;
  bad.network.links.duplication = 0.1;
  bad.network.links.reordering = 0.3;
  simulation cluster(bad);
  const auto nodes = cluster.start(3);
  gate = std::make_unique<signal>();
  int cancelled = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<future<int>> calls;
    for (int depth = 0; depth < 3; ++depth)
      calls.push_back(nodes[depth].rpc_async<&relay>(cluster.random(3), depth));
    cluster.sleep(std::chrono::microseconds(cluster.random(400)));
    for (const auto& call : calls) call.cancel();
    if (cluster.random(10) == 0) gate->to.set_value(1), gate = std::make_unique<signal>();
    for (const auto& call : calls) {
      EXPECT_TRUE(call.ready());
      try {
        call.get();
      } catch (const cancelled_error&) {
        ++cancelled;
      }
    }
  }
  EXPECT_GT(cancelled, 300);
  gate->to.set_value(1);  // of calls that were not cancelled themselves
  for (const auto& n : nodes)
    EXPECT_TRUE(cluster.wait_until(
        [&] { return n.debug_info().calls_in_flight == 0 && n.debug_info().calls_served == 0; },
        10s));
  return cluster.steps();
}

TEST(cancelling_on_a_bad_network, leaves_nothing_behind) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const auto steps = cancel_many(seed);
    if (seed == 1) {
      EXPECT_EQ(cancel_many(seed), steps);
    }
  }
}

TEST(cancelling_on_a_bad_network, is_not_what_the_loss_of_the_caller_does) {
  simulation cluster({.seed = 3});
  const auto nodes = cluster.start(3);
  begin();
  const auto call = nodes[2].rpc_async<&wait_at_gate>(1, 1, timeout(0ms));
  ASSERT_TRUE(cluster.wait_until([&] { return arrived == 1; }, 1s));
  cluster.crash(2);
  ASSERT_TRUE(cluster.wait_until([&] { return nodes[1].world_size() == 2; }, 10s));
  EXPECT_EQ(noticed, 0);
  EXPECT_EQ(nodes[1].debug_info().calls_served, 1u);
  gate->to.set_value(1);
  EXPECT_TRUE(cluster.wait_until([&] { return nodes[1].debug_info().calls_served == 0; }, 10s));
  EXPECT_EQ(noticed, 0);
}

}  // namespace
}  // namespace troupe::test
