// Handlers that compute or sleep for long do not hold up the small calls of their node.
#include <algorithm>

#include "tests/actors/node/job.hpp"
#include "tests/actors/remote/counter.hpp"

namespace troupe::test {
namespace {

class long_handlers : public on_networks {};
TROUPE_ON_NETWORKS(long_handlers);

std::atomic<bool> computing_may_end{false};

int sum(int a, int b) { return a + b; }
int pass_the_door(int x) {
  shared_door::current()->pass();
  return x;
}
std::uint64_t compute() {
  std::uint64_t x = 1;
  while (!computing_may_end.load(std::memory_order_relaxed)) x = x * 6364136223846793005u + 1;
  return x;
}

// The longest but one in twenty of many calls.
template <class F>
clock::duration most_take(F call) {
  std::vector<clock::duration> times;
  for (int i = 0; i < 200; ++i) {
    const auto begun = clock::now();
    call(i);
    times.push_back(clock::now() - begun);
  }
  std::sort(times.begin(), times.end());
  return times[190];
}

// What calls may take, where they take so long while no handler is long: others may want the
// processors, too.
clock::duration bound(clock::duration usual) { return 50ms + 4 * usual; }

TEST_P(long_handlers, that_sleep_delay_nobody) {
  auto nodes = start({"a", "b"});
  const auto usual = most_take([&](int x) { nodes[0].rpc_sync<&sum>("b", x, 1); });
  const shared_door door;
  std::vector<future<int>> asleep;
  for (int i = 0; i < 4; ++i) {
    asleep.push_back(nodes[0].rpc_async<&pass_the_door>("b", i));
    ASSERT_TRUE(door->wait_for(i + 1));
    EXPECT_LT(most_take([&](int x) { EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", x, 1), x + 1); }),
              bound(usual));
  }
  auto c = nodes[0].spawn_on<count_from>("b", 0);
  EXPECT_LT(most_take([&](int x) { EXPECT_EQ(request(c, add{1}).get(), x + 1); }), bound(usual));
  for (auto& f : asleep) EXPECT_FALSE(f.ready());
}

TEST_P(long_handlers, that_compute_delay_nobody) {
  auto nodes = start({"a", "b"});
  const auto usual = most_take([&](int x) { nodes[0].rpc_sync<&sum>("b", x, 1); });
  computing_may_end = false;
  auto busy = nodes[0].rpc_async<&compute>("b");
  EXPECT_LT(most_take([&](int x) { EXPECT_EQ(nodes[0].rpc_sync<&sum>("b", x, 1), x + 1); }),
            bound(usual));
  EXPECT_LT(most_take([&](int x) { EXPECT_EQ(nodes[1].rpc_sync<&sum>("b", x, 1), x + 1); }),
            bound(usual));
  EXPECT_FALSE(busy.ready());
  computing_may_end = true;
  EXPECT_NE(busy.get_for(time_limit), 0u);
}

}  // namespace
}  // namespace troupe::test
