// Calls and messages of high priority, and what they pass.

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"
#include "troupe/actors/scheduler/run_queue.hpp"
#include "troupe/actors/scheduler/work_item.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {

struct item {
  int number = 0;
};
TROUPE_MESSAGE(item, number)
struct all_items {};
TROUPE_MESSAGE(all_items)

namespace {

constexpr int urgent = 1000;

std::mutex mutex;
std::vector<int> order;

int note(int x) {
  const std::lock_guard guard(mutex);
  order.push_back(x);
  return x;
}

std::vector<int> order_so_far() {
  const std::lock_guard guard(mutex);
  return order;
}

int pass_the_door() {
  shared_door::current()->pass();
  return 1;
}

class priorities : public on_networks {
protected:
  priorities() { order.clear(); }

  // An actor of that node that has ended: the node answers for it, and needs no free thread for
  // that.
  static counter ended_on(const node& from, int where) {
    const auto gone = from.spawn_on<count_from>(where, 0);
    troupe::send(gone, leave{});
    EXPECT_TRUE(eventually([&] { return has_answered(gone); }));
    return gone;
  }

  // Then what was sent before has come.
  static bool has_answered(const counter& gone) {
    try {
      request(gone, total{}).get_for(time_limit);
      return false;
    } catch (const actor_down&) {
      return true;
    }
  }
};
TROUPE_ON_NETWORKS(priorities);

TEST_P(priorities, let_a_call_pass_those_that_wait_for_a_thread) {
  rpc_options options;
  options.max_threads = 1;
  std::vector<node> nodes;
  const shared_door door;
  nodes = start({"a", "b"}, options);
  const auto gone = ended_on(nodes[0], 1);
  const auto first = nodes[0].rpc_async<&pass_the_door>("b");
  ASSERT_TRUE(door->wait_for(1));
  std::vector<future<int>> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(nodes[0].rpc_async<&note>("b", i, priority::normal));
  for (int i = 0; i < 3; ++i)
    calls.push_back(
        nodes[0].rpc_async<&note>("b", urgent + i, timeout(time_limit), priority::high));
  ASSERT_TRUE(has_answered(gone));
  EXPECT_TRUE(order_so_far().empty());
  door->open();
  EXPECT_EQ(first.get_for(time_limit), 1);
  for (const auto& call : calls) call.get_for(time_limit);
  const auto seen = order_so_far();
  ASSERT_EQ(seen.size(), 23u);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(seen[i], urgent + i);
  shut_down(nodes);
}

using collector = actor<accepts<item>, answers<all_items, std::vector<int>>>;

// Waits at the door with the first.
collector::behavior_type collect() {
  auto seen = std::make_shared<std::vector<int>>();
  return {[seen, door = shared_door::current()](const item& x) {
            if (seen->empty()) door->pass();
            seen->push_back(x.number);
          },
          [seen](const all_items&) { return *seen; }};
}

TEST_P(priorities, let_a_message_pass_those_in_a_mailbox) {
  for (const int where : {0, 1}) {
    std::vector<node> nodes;
    const shared_door door;
    nodes = start({"a", "b"});
    const auto there = nodes[0].spawn_on<collect>(where);
    troupe::send(there, item{0});
    ASSERT_TRUE(door->wait_for(1));
    const auto gone = ended_on(nodes[0], where);
    for (int i = 1; i < 50; ++i) troupe::send(there, item{i});
    troupe::send(there, item{urgent}, priority::high);
    troupe::send(there, item{urgent + 1}, priority::high, no_wait);
    const auto soon = request(there, all_items{}, timeout(time_limit), priority::high);
    ASSERT_TRUE(has_answered(gone));
    door->open();
    EXPECT_LT(soon.get().size(), 10u);
    const auto all = request(there, all_items{}).get();
    ASSERT_EQ(all.size(), 52u);
    const auto at = std::find(all.begin(), all.end(), urgent) - all.begin();
    EXPECT_LE(at, 4) << where;
    EXPECT_EQ(all[at + 1], urgent + 1);
    shut_down(nodes);
  }
}

// A node that has stood still finds all that has come meanwhile.
TEST(priorities_in_simulations, are_kept) {
  std::vector<std::vector<int>> orders;
  for (int run = 0; run < 2; ++run) {
    order.clear();
    simulation cluster({.seed = 11});
    const auto nodes = cluster.start(3);
    cluster.hang(1, 1s);
    std::vector<future<int>> calls;
    for (int i = 0; i < 100; ++i) calls.push_back(nodes[i % 2 * 2].rpc_async<&note>(1, i));
    cluster.sleep(100ms);
    calls.push_back(nodes[2].rpc_async<&note>(1, urgent, priority::high));
    for (const auto& call : calls) call.get();
    EXPECT_EQ(order.size(), 101u);
    EXPECT_EQ(order[0], urgent);
    orders.push_back(order);
  }
  EXPECT_EQ(orders[0], orders[1]);
}

TEST(run_queue, takes_what_is_urgent_first) {
  run_queue queue;
  std::vector<int> ran;
  const auto push = [&](int x, bool urgent) {
    queue.push(make_work_item([&ran, x](caf::execution_unit*) { ran.push_back(x); }), urgent);
  };
  for (int i = 0; i < 6; ++i) push(i, i % 3 == 2);
  EXPECT_FALSE(queue.empty());
  while (auto* job = queue.try_pop()) {
    job->resume(nullptr, 1);
    intrusive_ptr_release(job);
    if (ran.size() == 3) push(6, true);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(ran, (std::vector<int>{2, 5, 0, 6, 1, 3, 4}));
}

}  // namespace
}  // namespace troupe::test
