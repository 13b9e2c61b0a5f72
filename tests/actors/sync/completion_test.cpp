#include "troupe/actors/sync/completion.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

TEST(completion, is_waited_for_by_many_threads_and_publishes_what_came_before) {
  for (int round = 0; round < 200; ++round) {
    completion one;
    int value = 0;
    std::atomic<int> seen{0};
    {
      std::vector<std::jthread> waiting;
      for (int i = 0; i < 3; ++i)
        waiting.emplace_back([&] {
          EXPECT_TRUE(one.wait(never));
          seen += value;
        });
      if (round % 2 == 0) std::this_thread::yield();
      value = 7;
      one.complete();
    }
    EXPECT_EQ(seen, 21);
    EXPECT_TRUE(one.ready());
    EXPECT_TRUE(one.wait(clock::now()));
  }
}

TEST(completion, gives_up_at_the_deadline) {
  completion one;
  const auto before = clock::now();
  EXPECT_FALSE(one.wait(before + 5ms));
  EXPECT_GE(clock::now(), before + 5ms);
  EXPECT_FALSE(one.ready());
  EXPECT_FALSE(one.wait(clock::now() - 1s));
}

// A wake-up between the look at `wakes` and the sleep is not lost.
TEST(completion, does_not_sleep_through_a_wake_up) {
  completion one;
  const auto wakes = one.wakes();
  one.wake_waiter();
  one.park_unless_woken(wakes, never);  // returns
  EXPECT_NE(one.wakes(), wakes);
  EXPECT_FALSE(one.ready());
  std::atomic<int> woken{0};
  std::jthread waiting([&] {
    for (auto seen = one.wakes(); !one.ready(); seen = one.wakes()) {
      one.park_unless_woken(seen, never);
      ++woken;
    }
  });
  while (woken < 3) one.wake_waiter();
  one.complete();
}

}  // namespace
}  // namespace troupe::test
