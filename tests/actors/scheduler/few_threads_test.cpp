// A node all of whose threads are taken by handlers that wait.

#include "tests/actors/node/job.hpp"
#include "troupe/actors/future/future.hpp"

namespace troupe::test {

namespace {

std::atomic<int> waiting{0};

// Until its node ends.
int wait_for_ever() {
  ++waiting;
  return promise<int>().get_future().get();
}

int ask(const std::string& whom) {
  ++waiting;
  return this_node().rpc_sync<&wait_for_ever>(whom, timeout(0ms));
}

int compute() {
  shared_door::current()->pass();
  return 1;
}

int twice(int x) { return 2 * x; }

class few_threads : public on_networks {
protected:
  few_threads() { waiting = 0; }

  // All threads of "b" wait for "c"; more calls, which come later, wait for theirs.
  void start() {
    rpc_options options;
    options.max_threads = 4;
    nodes = on_networks::start({"a", "b", "c"}, options);
    ask_b(4);
    ASSERT_TRUE(eventually([&] { return waiting == 8; }));
    std::this_thread::sleep_for(100ms);  // until the leader sleeps
    ask_b(4);
  }

  void ask_b(int times) {
    for (int i = 0; i < times; ++i)
      calls.push_back(nodes[0].rpc_async<&ask>("b", std::string("c"), timeout(0ms)));
  }

  std::vector<node> nodes;
  std::vector<future<int>> calls;
};

TEST_P(few_threads, are_released_by_the_loss_of_the_node_that_they_wait_for) {
  start();
  nodes[2].shutdown(false);
  for (auto& call : calls) EXPECT_THROW(call.get_for(time_limit), peer_lost);
  EXPECT_EQ(nodes[0].rpc_async<&twice>("b", 21).get_for(time_limit), 42);
  nodes.pop_back();
  shut_down(nodes);
}

// Handlers that compute leave no thread for the network, but the timer thread looks at it.
TEST_P(few_threads, that_compute_are_notified_of_losses) {
  rpc_options options;
  options.max_threads = 2;
  nodes = on_networks::start({"a", "b", "c"}, options);
  const shared_door door;
  for (int i = 0; i < 2; ++i) calls.push_back(nodes[0].rpc_async<&compute>("b", timeout(0ms)));
  ASSERT_TRUE(door->wait_for(2));
  auto of_b = nodes[1].rpc_async<&wait_for_ever>("c", timeout(0ms));
  ASSERT_TRUE(eventually([&] { return waiting == 1; }));
  nodes[2].shutdown(false);
  EXPECT_TRUE(eventually([&] { return of_b.ready(); }));
  EXPECT_THROW(of_b.get(), peer_lost);
  door->open();
  for (auto& call : calls) EXPECT_EQ(call.get_for(time_limit), 1);
  nodes.pop_back();
  shut_down(nodes);
}

TEST_P(few_threads, keep_the_limits_of_calls) {
  start();
  // Of the node's program, which leaves the waiting to others.
  auto late = nodes[1].rpc_async<&wait_for_ever>("a", timeout(50ms));
  EXPECT_TRUE(eventually([&] { return late.ready(); }));
  EXPECT_THROW(late.get(), rpc_timeout);
  for (auto& one : nodes) one.shutdown(false);
  for (auto& call : calls) EXPECT_THROW(call.get(), error);
}

TROUPE_ON_NETWORKS(few_threads);

}  // namespace

}  // namespace troupe::test
