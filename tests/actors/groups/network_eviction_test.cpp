// What waits until all groups of a lost node have been told.

#include "troupe/actors/groups/network/eviction.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace troupe::groups::network {
namespace {

TEST(network_eviction, does_what_takes_long_at_its_end_on_its_thread_alone) {
  std::vector<int> done;
  const auto later = [&](int number) {
    return eviction::defer([&done, number] { done.push_back(number); });
  };
  EXPECT_FALSE(later(0));
  {
    const eviction outer;
    EXPECT_TRUE(later(1));
    {
      // Of another node, which is lost because of the first.
      const eviction inner;
      EXPECT_TRUE(later(2));
      EXPECT_TRUE(done.empty());
    }
    EXPECT_EQ(done, std::vector{2});
    EXPECT_TRUE(later(3));
    std::thread([&] { EXPECT_FALSE(later(4)); }).join();
    EXPECT_EQ(done, std::vector{2});
  }
  EXPECT_EQ(done, (std::vector{2, 1, 3}));
  EXPECT_FALSE(later(5));
}

}  // namespace
}  // namespace troupe::groups::network
