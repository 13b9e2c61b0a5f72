// A thread that polls on a processor which others want.

#include "troupe/actors/scheduler/cpu_placement.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace troupe::test {
namespace {

using namespace std::chrono_literals;

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
}

// Threads that compute on one processor for as long as it lives.
class busy {
public:
  busy(int cpu, int threads) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, cpu] {
        stay_on(cpu);
        while (!stop_) {
        }
      });
  }
  ~busy() {
    stop_ = true;
    for (auto& one : threads_) one.join();
  }

private:
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

TEST(cpu_placement, is_left_to_those_who_keep_wanting_it) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "there is one processor only";
  const int here = sched_getcpu();
  bool crowded = false, moved = false;
  std::thread polls([&] {
    stay_on(here);
    const busy others(here, 2);
    sched_setaffinity(0, sizeof mine, &mine);
    troupe::cpu_placement where;
    const auto limit = clock::now() + 100s;
    while (!moved && clock::now() < limit) {
      where.yield(clock::now());
      crowded |= where.crowded();
      moved = crowded && sched_getcpu() != here;
    }
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&mine, &after)) << "it may use others than before";
  });
  polls.join();
  EXPECT_TRUE(crowded);
  EXPECT_TRUE(moved);
}

TEST(cpu_placement, is_kept_by_a_thread_that_may_use_no_other) {
  std::thread polls([&] {
    const int here = sched_getcpu();
    stay_on(here);
    const busy others(here, 1);
    troupe::cpu_placement where;
    for (int i = 0; i < 200; ++i) where.yield(clock::now());
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_EQ(CPU_COUNT(&after), 1);
    EXPECT_EQ(sched_getcpu(), here);
  });
  polls.join();
}

}  // namespace
}  // namespace troupe::test
