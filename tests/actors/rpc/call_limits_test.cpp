// How long a call may take, and what is reported when it takes longer.
#include "tests/actors/node/job.hpp"

namespace troupe::test {
namespace {

std::uint32_t current_rank() { return this_node().rank(); }

// Answers when a message lets it go on.
struct hold {
  int x = 0;
};
TROUPE_MESSAGE(hold, x)
struct let_go {};
TROUPE_MESSAGE(let_go)
using holder = actor<answers<hold, int>, answers<let_go, int>>;

holder::behavior_type hold_back(holder::pointer self) {
  auto held = std::make_shared<std::vector<std::pair<caf::typed_response_promise<int>, int>>>();
  return {[=](const hold& q) {
            held->emplace_back(self->make_response_promise<int>(), q.x);
            return held->back().first;
          },
          [=](const let_go&) {
            for (auto& [promise, x] : *held) promise.deliver(x);
            return static_cast<int>(std::exchange(*held, {}).size());
          }};
}

class call_limits : public on_networks {};
TROUPE_ON_NETWORKS(call_limits);

int sum(int a, int b) { return a + b; }
int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}

TEST_P(call_limits, may_be_longer_than_time) {
  auto nodes = start({"a", "b"});
  nodes[0].set_rpc_timeout(std::chrono::milliseconds::max());
  auto call = nodes[0].rpc_async<&current_rank>("b");
  EXPECT_EQ(call.get_for(std::chrono::nanoseconds::max()), 1u);
  shut_down(nodes);
}

TEST_P(call_limits, end_a_call_and_name_it) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  for (int to : {0, 1}) {
    const auto begun = clock::now();
    auto why = fault_of<rpc_timeout>(
        [&] { nodes[0].rpc_sync<&pass_the_door>(to, 1, troupe::timeout(60ms)); });
    EXPECT_GE(clock::now() - begun, 60ms);
    EXPECT_LT(clock::now() - begun, time_limit / 2);
    EXPECT_EQ(why.node, nodes[to].name());
    EXPECT_THAT(why.function, testing::HasSubstr("pass_the_door"));
    EXPECT_EQ(why.limit, 60ms);
    EXPECT_THAT(why.text, testing::HasSubstr("RPC ran for more than set timeout (60 ms)"));
    EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  }
}

TEST_P(call_limits, come_from_the_options_the_node_or_the_call) {
  rpc_options options;
  options.rpc_timeout = 40ms;
  auto nodes = start({"a", "b"}, options);
  const shared_door door;
  EXPECT_EQ(nodes[0].rpc_timeout(), 40ms);
  auto limit_of = [&](auto... limit) {
    return fault_of<rpc_timeout>([&] { nodes[0].rpc_sync<&pass_the_door>("b", 1, limit...); })
        .limit;
  };
  EXPECT_EQ(limit_of(), 40ms);
  nodes[0].set_rpc_timeout(30ms);
  EXPECT_EQ(nodes[0].rpc_timeout(), 30ms);
  EXPECT_EQ(nodes[1].rpc_timeout(), 40ms);
  EXPECT_EQ(limit_of(), 30ms);
  EXPECT_EQ(limit_of(troupe::timeout(20ms)), 20ms);
  EXPECT_EQ(limit_of(troupe::timeout(1us)), 1ms);
}

TEST_P(call_limits, of_zero_are_none) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  nodes[0].set_rpc_timeout(20ms);
  auto patient = nodes[0].rpc_async<&pass_the_door>("b", 5, troupe::timeout(0s));
  EXPECT_THROW(nodes[0].rpc_sync<&pass_the_door>("b", 5), rpc_timeout);
  nodes[0].set_rpc_timeout(0ms);
  auto patient_too = nodes[0].rpc_async<&pass_the_door>("b", 6);
  EXPECT_THROW(nodes[0].rpc_sync<&pass_the_door>("b", 5, troupe::timeout(50ms)), rpc_timeout);
  EXPECT_FALSE(patient.ready());
  EXPECT_FALSE(patient_too.ready());
  door->open();
  EXPECT_EQ(patient.get_for(time_limit), 5);
  EXPECT_EQ(patient_too.get_for(time_limit), 6);
}

TEST_P(call_limits, end_requests_to_actors_here_and_there) {
  auto nodes = start({"a", "b"});
  for (int at : {0, 1}) {
    auto h = nodes[0].spawn_on<hold_back>(at);
    const auto begun = clock::now();
    auto why = fault_of<rpc_timeout>([&] { request(h, hold{1}, troupe::timeout(60ms)).get(); });
    EXPECT_GE(clock::now() - begun, 60ms);
    EXPECT_EQ(why.node, nodes[at].name());
    EXPECT_THAT(why.function, testing::HasSubstr("hold"));
    EXPECT_EQ(why.limit, 60ms);
    EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
    // Answered in time, without a limit, and by several.
    auto in_time = request(h, hold{2}, troupe::timeout(time_limit));
    auto unlimited = request(h, hold{3}, troupe::timeout(0s));
    auto several = when_all(std::vector<holder>{h, h}, hold{4}, troupe::timeout(time_limit));
    auto late = when_all(std::vector<holder>{h, h}, hold{5}, troupe::timeout(20ms));
    EXPECT_THROW(late.get(), rpc_timeout);
    EXPECT_FALSE(in_time.ready());
    EXPECT_FALSE(unlimited.ready());
    EXPECT_EQ(request(h, let_go{}, troupe::timeout(time_limit)).get(), 7);
    EXPECT_EQ(in_time.get(), 2);
    EXPECT_EQ(unlimited.get(), 3);
    EXPECT_EQ(several.get(), (std::vector<int>{4, 4}));
    EXPECT_EQ(nodes[0].debug_info().calls_in_flight, 0u);
  }
  // What is asked of an actor that ends, or whose node does, ends with that.
  auto dropped = nodes[0].spawn(hold_back);
  auto of_dropped = request(dropped, hold{1}, troupe::timeout(time_limit));
  EXPECT_EQ(request(dropped, let_go{}).get(), 1);
  EXPECT_EQ(of_dropped.get(), 1);
  auto open = request(dropped, hold{1}, troupe::timeout(1h));
  nodes[0].shutdown(false);
  EXPECT_THROW(open.get_for(time_limit), not_initialized);
  EXPECT_THROW(request(dropped, hold{1}, troupe::timeout(1h)), not_initialized);
}

TEST_P(call_limits, below_zero_are_refused) {
  auto nodes = start({"a", "b"});
  EXPECT_THROW(troupe::timeout(-1ms), invalid_argument);
  EXPECT_THROW(nodes[0].set_rpc_timeout(-1ms), invalid_argument);
  rpc_options options;
  options.rpc_timeout = -1ms;
  EXPECT_THROW(local_nodes({"a"}, options), invalid_argument);
}

TEST_P(call_limits, end_each_call_by_its_own) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<int>> pending;
  const int count = 20;
  for (int i = 0; i < count; ++i)
    pending.push_back(nodes[0].rpc_async<&pass_the_door>(
        "b", i, troupe::timeout(std::chrono::milliseconds(100 - 4 * i))));
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(fault_of<rpc_timeout>([&] { pending[i].get(); }).limit.count(), 100 - 4 * i);
}

TEST_P(call_limits, leave_a_late_answer_without_effect) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  std::vector<future<int>> late;
  for (int i = 0; i < 50; ++i)
    late.push_back(nodes[0].rpc_async<&pass_the_door>("b", -1, troupe::timeout(10ms)));
  for (auto& f : late) EXPECT_THROW(f.get(), rpc_timeout);
  ASSERT_TRUE(door->wait_for(50));
  const auto before = nodes[1].debug_info().traffic.messages_sent;
  door->open();
  ASSERT_TRUE(
      eventually([&] { return nodes[1].debug_info().traffic.messages_sent >= before + 50; }));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", i, 1), i + 1);
}

TEST_P(call_limits, of_a_wait_leave_the_call_alone) {
  auto nodes = start({"a", "b"});
  const shared_door door;
  auto f = nodes[0].rpc_async<&pass_the_door>("b", 3);
  EXPECT_FALSE(f.wait_for(1ms));
  EXPECT_EQ(fault_of<rpc_timeout>([&] { f.get_for(2ms); }).limit, 2ms);
  EXPECT_FALSE(f.ready());
  door->open();
  EXPECT_TRUE(f.wait_for(time_limit));
  EXPECT_EQ(f.get(), 3);
}

}  // namespace
}  // namespace troupe::test
