// Nodes in a process that gets no more threads: they go on with those that there are, one of
// which is the timer thread.

#include <dlfcn.h>
#include <pthread.h>

#include "tests/actors/node/job.hpp"

namespace {

std::atomic<int> threads_left{-1};  // that the system gives; negative: any number

bool one_more_thread() {
  auto left = threads_left.load();
  while (left > 0 && !threads_left.compare_exchange_weak(left, left - 1)) {
  }
  return left != 0;
}

}  // namespace

// Before the system's own.
extern "C" int pthread_create(pthread_t* out, const pthread_attr_t* how, void* (*body)(void*),
                              void* what) {
  static const auto real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return one_more_thread() ? real(out, how, body, what) : EAGAIN;
}

namespace troupe::test {

namespace {

// While it lives, the system gives no more than so many.
class thread_shortage {
public:
  explicit thread_shortage(int left) { threads_left = left; }
  ~thread_shortage() { threads_left = -1; }
  thread_shortage(const thread_shortage&) = delete;
  thread_shortage& operator=(const thread_shortage&) = delete;
};

int wait_at_shared_door(int x) {
  shared_door::current()->pass();
  return x;
}

int nest(int depth, const std::string& other) {
  if (depth == 0) return 0;
  auto here = this_node();
  return 1 + here.rpc_sync<&nest>(other, depth - 1, here.name(), timeout(0ms));
}

class thread_shortages : public on_networks {};
TROUPE_ON_NETWORKS(thread_shortages);

TEST_P(thread_shortages, leave_a_timer_thread) {
  auto nodes = start({"a"});
  const auto& here = nodes[0];
  const shared_door door;
  std::vector<future<int>> calls;
  {
    const thread_shortage none(0);
    // As many as there are, and more that wait for theirs.
    for (int i = 0; i < 20; ++i)
      calls.push_back(here.rpc_async<&wait_at_shared_door>("a", i, timeout(0ms)));
    ASSERT_TRUE(door->wait_for(1));
    for (int i = 0; i < 3; ++i)
      EXPECT_THROW(here.rpc_async<&wait_at_shared_door>("a", 0, timeout(200ms)).get_for(time_limit),
                   rpc_timeout);
    const auto slept = here.sleep_for(1ms);
    EXPECT_TRUE(slept.wait_for(time_limit));
    EXPECT_LT(here.debug_info().threads, 20u);
  }
  // The system gives threads again: all that wait get theirs.
  here.sleep_for(1ms).get();
  EXPECT_TRUE(door->wait_for(20));
  door->open();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(calls[i].get_for(time_limit), i);
  shut_down(nodes);
}

TEST_P(thread_shortages, end_calls_that_are_nested_deeper_than_there_are_threads) {
  auto nodes = start({"left", "right"});
  {
    const thread_shortage few(20);
    auto call = nodes[0].rpc_async<&nest>("right", 300, "left", timeout(0ms));
    ASSERT_TRUE(call.wait_for(time_limit));
    EXPECT_THROW(call.get(), deadlock_error);
  }
  EXPECT_EQ(nodes[0].rpc_async<&nest>("right", 30, "left").get_for(time_limit), 30);
  shut_down(nodes);
}

}  // namespace

}  // namespace troupe::test
