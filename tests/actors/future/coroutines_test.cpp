// Coroutines that wait for futures, here and at the callee, and calls that wait for their
// arguments.

#include <ATen/TensorOperators.h>
#include <malloc.h>

#include "tests/actors/node/job.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {
namespace {

class coroutines : public on_networks {};
TROUPE_ON_NETWORKS(coroutines);

int sum(int a, int b) { return a + b; }
int fail(const std::string& text) { throw std::out_of_range(text); }

// Counts what lives in a coroutine.
struct alive_counter {
  alive_counter() { ++count; }
  ~alive_counter() { --count; }
  alive_counter(const alive_counter&) = delete;
  alive_counter& operator=(const alive_counter&) = delete;
  static inline std::atomic<int> count{0};
};

task<int> sum_of_three(node n, int a, int b, int c) {
  const alive_counter here;
  const int ab = co_await n.rpc_async<&sum>("b", a, b);
  co_return co_await n.rpc_async<&sum>("b", ab, c);
}

task<> fail_later(node n) {
  const alive_counter here;
  co_await n.rpc_async<&fail>("b", "late");
}

task<std::string> type_of_failure(node n) {
  try {
    co_await fail_later(n);
  } catch (const remote_error& e) {
    co_return e.fault().type;
  }
  co_return "nothing";
}

TEST_P(coroutines, wait_for_one_call_after_the_other) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(sum_of_three(nodes[0], 1, 2, 3).get(), 6);
  std::vector<future<int>> many;
  for (int i = 0; i < 500; ++i) many.push_back(sum_of_three(nodes[0], i, i, i));
  for (int i = 0; i < 500; ++i) EXPECT_EQ(many[static_cast<std::size_t>(i)].get(), 3 * i);
  EXPECT_EQ(type_of_failure(nodes[0]).get(), "std::out_of_range");
  EXPECT_THROW(fail_later(nodes[0]).get(), remote_error);
  EXPECT_EQ(alive_counter::count, 0);
  shut_down(nodes);
}

// An awaiter of the program's own, which must not be copied.
struct bell {
  bell() = default;
  bell(const bell&) = delete;
  bell& operator=(const bell&) = delete;

  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> who) { waiting = who; }
  int await_resume() { return ++rung; }

  std::coroutine_handle<> waiting;
  int rung = 0;
};

task<int> wait_for(bell& one) {
  const int first = co_await one;
  co_return first + co_await one;
}

TEST(tasks, wait_for_awaiters_of_the_programs_own) {
  bell one;
  const auto both = wait_for(one);
  one.waiting.resume();
  EXPECT_FALSE(both.ready());
  one.waiting.resume();
  EXPECT_EQ(both.get(), 3);
  EXPECT_EQ(one.rung, 2);
}

// What a node's coroutines wait for until it is opened.
struct signal {
  promise<int> to;
  future<int> from = to.get_future();
};
std::unique_ptr<signal> gate;
std::atomic<int> arrived{0};

task<int> wait_at_gate(int x) {
  const alive_counter here;
  const auto opened = gate->from;  // before the test knows, which may drop the gate then
  ++arrived;
  co_return x + co_await opened;
}

// The parameter lives on the callee for as long as the coroutine.
task<std::string> greet(const std::string& whom) {
  ++arrived;
  co_await gate->from;
  co_return this_node().name() + " greets " + whom;
}

task<int> relay(int depth) {
  const auto here = this_node();
  if (depth == 0) co_return 0;
  co_return 1 + co_await here.rpc_async<&relay>(here.name() == "a" ? "b" : "a", depth - 1);
}

// The node of a handler is known as `this_node` alone.
task<int> sum_here(int a) {
  const auto here = this_node();
  const auto twice = here.rpc_async<&sum>("a", a, a);
  co_return co_await here.rpc_async<&sum>("a", twice, here.rpc_async<&sum>("b", a, a));
}

TEST_P(coroutines, take_futures_as_arguments_in_handlers) {
  auto nodes = start({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_async<&sum_here>("b", 5).get_for(time_limit), 20);
  shut_down(nodes);
}

TEST_P(coroutines, of_a_node_that_has_ended_end_where_they_wait) {
  auto nodes = start({"a", "b"});
  gate = std::make_unique<signal>();
  arrived = 0;
  const auto call = nodes[0].rpc_async<&greet>("b", std::string("you"));
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  nodes[1].shutdown(false);
  nodes.pop_back();
  EXPECT_THROW(call.get_for(time_limit), peer_lost);
  gate->to.set_value(1);
}

TEST(tasks, are_done_when_their_parameters_are_gone) {
  auto end = std::make_unique<signal>();
  auto kept = std::make_shared<std::atomic<int>>(0);
  struct parameter {
    std::shared_ptr<std::atomic<int>> gone;
    ~parameter() {
      if (gone) ++*gone;
    }
    explicit parameter(std::shared_ptr<std::atomic<int>> x) : gone(std::move(x)) {}
    parameter(parameter&&) = default;
  };
  auto running = [](parameter, future<int> what) -> task<int> { co_return co_await what; }(
                                                     parameter(kept), end->from);
  int gone_then = 0;
  auto seen = running.result().then([&](int) { return kept->load(); });
  end->to.set_value(3);
  gone_then = seen.get();
  EXPECT_EQ(gone_then, 1);
  EXPECT_EQ(running.get(), 3);
}

TEST(tasks, may_return_what_cannot_be_copied) {
  auto made = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
  EXPECT_EQ(*made().get(), 4);
  auto taken = [&]() -> task<int> { co_return *co_await made(); };
  EXPECT_EQ(taken().get(), 4);
}

TEST_P(coroutines, of_the_callee_hold_no_thread_while_they_wait) {
  rpc_options options;
  options.max_threads = 2;
  auto nodes = start({"a", "b"}, options);
  gate = std::make_unique<signal>();
  arrived = 0;
  std::vector<future<int>> calls;
  for (int i = 0; i < 1000; ++i) calls.push_back(nodes[0].rpc_async<&wait_at_gate>("b", i));
  const auto greeting = nodes[0].rpc_async<&greet>("b", std::string(100, 'x'));
  ASSERT_TRUE(eventually([&] { return arrived == 1001; }));
  EXPECT_LE(nodes[1].debug_info().threads, 3u);
  EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", 1, 2), 3);
  EXPECT_EQ(alive_counter::count, 1000);
  gate->to.set_value(1000);
  for (int i = 0; i < 1000; ++i)
    EXPECT_EQ(calls[static_cast<std::size_t>(i)].get_for(time_limit), 1000 + i);
  EXPECT_EQ(greeting.get_for(time_limit), "b greets " + std::string(100, 'x'));
  EXPECT_TRUE(eventually([&] { return alive_counter::count == 0; }));
  EXPECT_EQ(nodes[0].rpc_async<&relay>("b", 200).get_for(time_limit), 200);
  shut_down(nodes);
}

TEST_P(coroutines, end_when_what_they_wait_for_never_comes) {
  auto nodes = start({"a", "b"});
  gate = std::make_unique<signal>();
  arrived = 0;
  const auto call = nodes[0].rpc_async<&wait_at_gate>("b", 1);
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  gate.reset();  // the promise is dropped: co_await throws
  EXPECT_THROW(call.get_for(time_limit), remote_error);
  EXPECT_TRUE(eventually([&] { return alive_counter::count == 0; }));

  shut_down(nodes);
}

TEST_P(coroutines, end_with_the_node_that_they_wait_for) {
  auto nodes = start({"a", "b"});
  gate = std::make_unique<signal>();
  arrived = 0;
  const auto through = [](node n) -> task<int> {
    const alive_counter here;
    co_return co_await n.rpc_async<&wait_at_gate>("b", 1, timeout(0ms));
  };
  auto waiting = through(nodes[0]);
  ASSERT_TRUE(eventually([&] { return arrived == 1; }));
  nodes[1].shutdown(false);
  EXPECT_THROW(waiting.get_for(time_limit), peer_lost);
  gate.reset();
  EXPECT_TRUE(eventually([&] { return alive_counter::count == 0; }));
}

TEST_P(coroutines, give_futures_that_go_on) {
  auto nodes = start({"a", "b"});
  future<int> six = sum_of_three(nodes[0], 1, 2, 3);
  EXPECT_EQ(six.then([](int x) { return 2 * x; }).get(), 12);
  const auto both = when_all(six, nodes[0].rpc_async<&sum>("b", 3, 4));
  EXPECT_EQ(both.get(), std::make_tuple(6, 7));
  promise<int> late;
  EXPECT_THROW(when_all(late.get_future(), nodes[0].rpc_async<&fail>("b", "x")).get_for(time_limit),
               remote_error);
  shut_down(nodes);
}

TEST(when_any, reports_which_is_ready_first) {
  std::vector<promise<int>> to(3);
  std::vector<future<int>> from;
  for (auto& one : to) from.push_back(one.get_future());
  const auto first = when_any(from);
  EXPECT_FALSE(first.ready());
  to[1].set_exception(std::make_exception_ptr(std::out_of_range("x")));
  to[0].set_value(1);
  EXPECT_EQ(first.get(), 1u);
  EXPECT_THROW(from[first.get()].get(), std::out_of_range);
  EXPECT_THROW(when_any(std::vector<future<int>>()), invalid_argument);
}

TEST(when_any, leaves_nothing_at_the_futures_that_have_lost) {
  promise<int> never;
  const auto bytes = [] { return mallinfo2().uordblks; };
  const auto before = bytes();
  for (int i = 0; i < 100'000; ++i) {
    promise<int> soon;
    const auto first = when_any(std::vector{never.get_future(), soon.get_future()});
    soon.set_value(i);
    EXPECT_EQ(first.get(), 1u);
  }
  EXPECT_LT(bytes(), before + 4'000'000);  // 40 bytes for each
}

class future_arguments : public on_networks {};
TROUPE_ON_NETWORKS(future_arguments);

std::string join(const std::string& a, int b, const std::string& c) {
  return a + std::to_string(b) + c;
}

TEST_P(future_arguments, start_the_call_when_they_are_ready) {
  auto nodes = start({"a", "b"});
  const auto& n = nodes[0];
  const auto three = n.rpc_async<&sum>("b", 1, 2);
  EXPECT_EQ(n.rpc_sync<&sum>("b", three, n.rpc_async<&sum>("a", 10, three)), 16);

  promise<int> late;
  const auto threads = n.debug_info().threads;
  std::vector<future<std::string>> calls;
  {
    std::string text = "text ";
    for (int i = 0; i < 300; ++i)
      calls.push_back(
          n.rpc_async<&join>("b", text, late.get_future(), text.c_str(), timeout(time_limit)));
    text = "other";
  }
  EXPECT_EQ(n.debug_info().calls_in_flight, 0u);
  EXPECT_LT(n.debug_info().threads, threads + 100) << "the calls that wait hold threads";
  late.set_value(7);
  for (const auto& call : calls) EXPECT_EQ(call.get_for(time_limit), "text 7text ");
  shut_down(nodes);
}

TEST_P(future_arguments, that_fail_fail_the_call) {
  auto nodes = start({"a", "b"});
  const auto& n = nodes[0];
  const auto broken = n.rpc_async<&fail>("b", "x");
  EXPECT_THROW(n.rpc_async<&sum>("b", 1, broken).get_for(time_limit), remote_error);
  EXPECT_THROW(n.rpc_async<&sum>("nobody", 1, broken), unknown_worker);
  EXPECT_THROW(n.rpc_async<&sum>("b", 1, future<int>()), invalid_argument);
  promise<int> late;
  const auto call = n.rpc_async<&sum>("b", 1, late.get_future());
  for (auto& one : nodes) one.shutdown(false);
  late.set_value(1);
  EXPECT_THROW(call.get_for(time_limit), not_initialized);
}

TEST(coroutines, run_in_simulations) {
  simulation_options bad{.seed = 5};
  bad.network.links.loss = 0.2;
  simulation cluster(bad);
  const auto nodes = cluster.start({"a", "b"});
  EXPECT_EQ(nodes[0].rpc_sync<&relay>("b", 20), 20);
  std::vector<future<int>> many;
  for (int i = 0; i < 50; ++i) many.push_back(sum_of_three(nodes[0], i, 1, 1));
  for (int i = 0; i < 50; ++i) EXPECT_EQ(many[static_cast<std::size_t>(i)].get(), i + 2);
}

}  // namespace
}  // namespace troupe::test
