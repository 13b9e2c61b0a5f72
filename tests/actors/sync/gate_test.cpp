#include "troupe/actors/sync/gate.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace troupe::test {
namespace {

TEST(gate, admits_until_it_is_closed) {
  gate one;
  EXPECT_FALSE(one.closed());
  std::optional<gate::pass> inside(std::in_place, one);
  EXPECT_TRUE(*inside);
  EXPECT_FALSE(one.empty());
  one.close();
  EXPECT_TRUE(one.closed());
  EXPECT_TRUE(*inside);  // who is inside stays
  EXPECT_FALSE(gate::pass(one));
  EXPECT_FALSE(one.empty());
  inside.reset();
  EXPECT_TRUE(one.empty());
  one.wait_until_empty();
}

// Whoever has passed may use what the closer destroys after the wait, and nobody passes later.
TEST(gate, nobody_is_inside_after_the_wait) {
  for (int round = 0; round < 200; ++round) {
    gate one;
    auto guarded = std::make_unique<std::atomic<int>>(0);
    std::atomic<int> started{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back([&] {
        ++started;
        while (const gate::pass inside{one}) guarded->fetch_add(1);
      });
    while (started < 3) std::this_thread::yield();
    one.close();
    one.wait_until_empty();
    const int last = *guarded;
    guarded->store(-1);
    threads.clear();
    EXPECT_GE(last, 0);
    EXPECT_EQ(*guarded, -1);
  }
}

}  // namespace
}  // namespace troupe::test
