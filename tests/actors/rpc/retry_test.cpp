// Calls that are made again, and futures that are ready after a while.

#include "tests/actors/node/job.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {
namespace {

std::atomic<int> run{0};
std::atomic<int> answer_from{1};  // the first attempt that is answered

int square(int x) {
  ++run;
  return x * x;
}
int fail(const std::string& text) {
  ++run;
  throw std::out_of_range(text);
}

// Answers some attempts never, as if the answer had been lost.
std::mutex mutex;
std::vector<promise<int>> unkept;
void drop_unkept() {
  const std::lock_guard guard(mutex);
  unkept.clear();
}
future<int> answer_late(int x) {
  const std::lock_guard guard(mutex);
  if (++run < answer_from) return unkept.emplace_back().get_future();
  promise<int> now;
  now.set_value(x);
  return now.get_future();
}

int ask_another(const std::string& whom) {
  ++run;
  return this_node().rpc_sync<&square>(whom, 2);
}

// What a call of the same function on this node has reported to another node, which passes it on.
int fail_below() {
  ++run;
  fault why;
  why.node = this_node().name();
  why.function = std::string(function_name<&fail_below>());
  why.via = "another on c";
  throw rpc_timeout(std::move(why));
}

int not_twice() { return 1; }

}  // namespace
}  // namespace troupe::test

TROUPE_IDEMPOTENT(&troupe::test::square)
TROUPE_IDEMPOTENT(troupe::test::fail)
TROUPE_IDEMPOTENT(&troupe::test::answer_late)
TROUPE_IDEMPOTENT(&troupe::test::fail_below)
TROUPE_IDEMPOTENT(static_cast<int (*)(const std::string&)>(&troupe::test::ask_another))

namespace troupe::test {
namespace {

static_assert(is_idempotent<&square> && is_idempotent<square> && is_idempotent<&fail>);
static_assert(is_idempotent<&ask_another> && !is_idempotent<&not_twice>);
static_assert(detail::asks_for_retry<int, retry, timeout> && !detail::asks_for_retry<int, timeout>);

class retries : public testing::Test {
protected:
  retries() {
    run = 0;
    answer_from = 1;
    drop_unkept();
  }
};

TEST_F(retries, are_not_made_for_what_happened_further_down) {
  auto nodes = local_nodes({"a", "b"});
  const retry thrice{.attempts = 3, .first_pause = 1ms};
  EXPECT_THROW(nodes[0].rpc_sync<&fail_below>("b", thrice), rpc_timeout);
  EXPECT_EQ(run, 1);
  shut_down(nodes);
}

TEST_F(retries, find_the_next_incarnation_of_a_lost_node) {
  simulation cluster({.seed = 1});
  auto nodes = cluster.start(3);
  cluster.crash(1);
  const auto call =
      nodes[0].rpc_async<&square>("worker1", 7, retry{.attempts = 10, .first_pause = 200ms});
  const auto once = nodes[0].rpc_async<&square>("worker1", 7);
  EXPECT_THROW(once.get(), peer_lost);
  cluster.sleep(300ms);
  EXPECT_FALSE(call.ready());
  const auto again = cluster.join("worker1", 1);
  EXPECT_EQ(call.get(), 49);
  EXPECT_EQ(run, 1);
}

TEST_F(retries, report_how_many_attempts_were_made) {
  simulation cluster({.seed = 2});
  const auto nodes = cluster.start(3);
  cluster.crash(1);
  ASSERT_TRUE(cluster.wait_until([&] { return nodes[0].world_size() == 2; }, 1s));
  const auto before = cluster.now();
  const auto why = fault_of<peer_lost>([&] {
    nodes[0].rpc_sync<&square>("worker1", 7,
                               retry{.attempts = 4, .first_pause = 100ms, .factor = 2});
  });
  EXPECT_THAT(why.text, testing::HasSubstr("after 4 attempts"));
  EXPECT_EQ(why.node, "worker1");
  // Pauses of 100, 200 and 400 ms, or half of that.
  EXPECT_GE(cluster.now() - before, 350ms);
  EXPECT_LE(cluster.now() - before, 701ms);
  EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
}

TEST_F(retries, give_each_attempt_the_limit) {
  simulation cluster({.seed = 3});
  const auto nodes = cluster.start(2);
  answer_from = 3;
  const auto before = cluster.now();
  EXPECT_EQ(nodes[0].rpc_sync<&answer_late>(1, 5, timeout(1s), retry(3)), 5);
  EXPECT_EQ(run, 3);
  EXPECT_GE(cluster.now() - before, 2s + 125ms);
  EXPECT_LE(cluster.now() - before, 2s + 251ms);
  run = 0;
  const auto why =
      fault_of<rpc_timeout>([&] { nodes[0].rpc_sync<&answer_late>(1, 5, retry(2), timeout(1s)); });
  EXPECT_EQ(run, 2);
  EXPECT_THAT(why.text, testing::HasSubstr("after 2 attempts"));
  EXPECT_EQ(why.limit, 1s);
}

TEST_F(retries, wait_for_a_receiver_that_is_behind) {
  simulation_options options{.seed = 4};
  options.node.window = {4, 1 << 20};
  simulation cluster(options);
  const auto nodes = cluster.start(2);
  cluster.hang(1, 2s);
  std::vector<future<int>> calls;
  for (int i = 0; i < 10; ++i)
    calls.push_back(nodes[0].rpc_async<&square>(
        1, i, no_wait, retry{.attempts = 20, .first_pause = 200ms, .factor = 1}));
  cluster.sleep(1s);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(calls[i].get(), i * i);
  EXPECT_EQ(run, 10);
  cluster.hang(1, 10s);
  for (int i = 0; i < 4; ++i) calls.push_back(nodes[0].rpc_async<&square>(1, i));
  EXPECT_THROW(nodes[0].rpc_sync<&square>(1, 1, no_wait, retry(2)), overloaded_error);
}

TEST_F(retries, are_for_no_other_error) {
  simulation cluster({.seed = 5});
  const auto nodes = cluster.start(3);
  const auto why =
      fault_of<remote_error>([&] { nodes[0].rpc_sync<&fail>(1, std::string("no"), retry(5)); });
  EXPECT_EQ(why.text, "no");
  EXPECT_EQ(run, 1);
  // The callee lives; whom it has lost is its own affair.
  cluster.crash(2);
  run = 0;
  EXPECT_THROW(nodes[0].rpc_sync<&ask_another>(1, "worker2", retry(5)), peer_lost);
  EXPECT_EQ(run, 1);
  EXPECT_THROW(nodes[0].rpc_async<&square>("nobody", 1, retry(5)), unknown_worker);
  EXPECT_THROW(nodes[0].rpc_async<&square>(1, 1, retry(0)), invalid_argument);
  EXPECT_THROW(nodes[0].rpc_async<&square>(1, 1, retry{.first_pause = -1ms}), invalid_argument);
  EXPECT_THROW(nodes[0].rpc_async<&square>(1, 1, retry{.factor = 0.5}), invalid_argument);
  EXPECT_EQ(nodes[0].rpc_sync<&square>(1, 3, retry(1)), 9);
}

TEST_F(retries, stop_when_they_are_cancelled) {
  simulation cluster({.seed = 6});
  const auto nodes = cluster.start(3);
  cluster.crash(1);
  const auto between = nodes[0].rpc_async<&square>("worker1", 7, retry{.first_pause = 10s});
  answer_from = 100;
  const auto during = nodes[0].rpc_async<&answer_late>(2, 1, timeout(0ms), retry(3));
  cluster.sleep(1s);
  EXPECT_EQ(nodes[2].debug_info().calls_served, 1u);
  for (const auto* call : {&between, &during}) {
    EXPECT_FALSE(call->ready());
    call->cancel();
    EXPECT_THAT(fault_of<cancelled_error>([&] { call->get(); }).node,
                testing::StartsWith("worker"));
  }
  cluster.sleep(1min);
  EXPECT_EQ(run, 1);
  EXPECT_EQ(nodes[2].debug_info().calls_served, 0u);
}

TEST_F(retries, hold_up_a_graceful_shutdown) {
  simulation cluster({.seed = 7});
  auto nodes = cluster.start(2);
  answer_from = 2;
  const auto call =
      nodes[0].rpc_async<&answer_late>(1, 5, timeout(100ms), retry{.first_pause = 10s});
  std::vector<future<void>> ends;
  for (const auto& n : nodes) ends.push_back(cluster.spawn([n] { n.shutdown(); }));
  EXPECT_EQ(call.get(), 5);
  for (auto& end : ends) end.get();
}

TEST_F(retries, end_with_their_node) {
  simulation cluster({.seed = 9});
  auto nodes = cluster.start(3);
  cluster.crash(1);
  const auto call = nodes[0].rpc_async<&square>("worker1", 7, retry{.first_pause = 50s});
  cluster.sleep(1s);
  nodes[0].shutdown(false);
  EXPECT_THROW(call.get(), not_initialized);
  EXPECT_THROW(nodes[0].rpc_async<&square>(1, 7, retry(2)), not_initialized);
}

TEST_F(retries, take_futures_as_arguments) {
  simulation cluster({.seed = 10});
  const auto nodes = cluster.start(2);
  answer_from = 2;
  promise<int> argument;
  const auto call = nodes[0].rpc_async<&answer_late>(1, argument.get_future(), retry(2),
                                                     timeout(100ms), priority::high);
  cluster.sleep(1s);
  EXPECT_EQ(run, 0);
  argument.set_value(6);
  EXPECT_EQ(call.get(), 6);
  EXPECT_EQ(run, 2);
}

TEST_F(retries, are_a_function_of_the_seed) {
  std::vector<std::uint64_t> steps;
  std::vector<clock::duration> times;
  for (const std::uint64_t seed : {11, 11, 12}) {
    simulation_options bad{.seed = seed};
    bad.network.links.loss = 0.2;
    simulation cluster(bad);
    auto nodes = cluster.start(3);
    const auto begin = cluster.now();
    cluster.crash(1);
    std::vector<future<int>> calls;
    for (int i = 0; i < 10; ++i)
      calls.push_back(nodes[i % 2 * 2].rpc_async<&square>("worker1", i, retry(20)));
    cluster.sleep(1s);
    const auto again = cluster.join("worker1", 1);
    for (int i = 0; i < 10; ++i) EXPECT_EQ(calls[i].get(), i * i);
    times.push_back(cluster.now() - begin);
    steps.push_back(cluster.steps());
  }
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(times[0], times[1]);
  EXPECT_NE(times[0], times[2]);
}

// ---- With threads

class retries_on : public on_networks {};
TROUPE_ON_NETWORKS(retries_on);

TEST_P(retries_on, hold_no_thread) {
  rpc_options options;
  options.max_threads = 2;
  auto nodes = start({"a", "b", "c"}, options);
  run = 0;
  nodes[2].shutdown(false);
  ASSERT_TRUE(eventually([&] { return nodes[0].world_size() == 2; }));
  std::vector<future<int>> calls;
  for (int i = 0; i < 100; ++i)
    calls.push_back(nodes[1].rpc_async<&square>("c", i, retry{.first_pause = 200ms}));
  EXPECT_EQ(nodes[0].rpc_async<&square>("b", 3, retry(2)).get_for(time_limit), 9);
  for (const auto& call : calls)
    EXPECT_THAT(fault_of<peer_lost>([&] { call.get_for(time_limit); }).text,
                testing::HasSubstr("after 3 attempts"));
  nodes.pop_back();
  shut_down(nodes);
}

TEST_P(retries_on, make_timed_out_calls_again) {
  auto nodes = start({"a", "b"});
  run = 0;
  answer_from = 3;
  drop_unkept();
  EXPECT_EQ(
      nodes[0]
          .rpc_async<&answer_late>("b", 4, timeout(20ms), retry{.attempts = 3, .first_pause = 1ms})
          .get_for(time_limit),
      4);
  EXPECT_EQ(run, 3);
  drop_unkept();
  shut_down(nodes);
}

// ---- Sleep

TEST(sleeping, takes_the_time_of_a_simulation) {
  simulation cluster({.seed = 12});
  const auto nodes = cluster.start(2);
  const auto before = cluster.now();
  std::vector<future<void>> naps;
  for (const int ms : {30, 10, 20, 0}) naps.push_back(nodes[0].sleep_for(ms * 1ms));
  naps[3].get();
  naps[1].get();
  EXPECT_GE(cluster.now() - before, 10ms);
  EXPECT_LE(cluster.now() - before, 11ms);
  EXPECT_FALSE(naps[2].ready());
  when_all(naps).get();
  EXPECT_GE(cluster.now() - before, 30ms);
  EXPECT_LE(cluster.now() - before, 31ms);
  nodes[0].sleep_for(20min).get();
  EXPECT_GE(cluster.now() - before, 20min);
  const auto given_up = nodes[0].sleep_for(1min);
  given_up.cancel();
  EXPECT_THROW(given_up.get(), cancelled_error);
}

task<int> nap(int x) {
  co_await sleep_for(10ms);
  const auto here = this_node();
  co_await sleep_for(10ms);
  co_return x + static_cast<int>(here.rank());
}

TEST(sleeping, is_for_coroutines_of_handlers) {
  simulation cluster({.seed = 13});
  const auto nodes = cluster.start(2);
  const auto before = cluster.now();
  std::vector<future<int>> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(nodes[0].rpc_async<&nap>(1, i));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(calls[i].get(), i + 1);
  EXPECT_LE(cluster.now() - before, 25ms);
  EXPECT_THROW(sleep_for(1ms), not_initialized);
}

TEST_P(retries_on, sleep_in_order_and_end_with_their_node) {
  auto nodes = start({"a", "b"});
  const auto before = clock::now();
  const auto long_nap = nodes[0].sleep_for(1h);
  const auto second = nodes[0].sleep_for(40ms);
  const auto first = nodes[0].sleep_for(20ms);
  second.get();
  EXPECT_TRUE(first.ready());
  EXPECT_GE(clock::now() - before, 40ms);
  EXPECT_EQ(nodes[0].rpc_async<&nap>("b", 1).get_for(time_limit), 2);
  EXPECT_FALSE(long_nap.ready());
  shut_down(nodes);  // nobody waits for those who sleep
  EXPECT_THROW(long_nap.get(), not_initialized);
  EXPECT_THROW(nodes[0].sleep_for(1ms), not_initialized);
}

}  // namespace
}  // namespace troupe::test
