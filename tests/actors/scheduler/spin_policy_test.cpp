// When a node polls through its waits: in a conversation, not for an idle node's few messages.

#include "troupe/actors/scheduler/spin_policy.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using troupe::spin_policy;

void converse(spin_policy& waits) {
  for (int i = 0; i < 20; ++i) waits.add(300us);
}

TEST(spin_policy, are_brief_in_a_conversation) {
  spin_policy waits(2ms);
  EXPECT_FALSE(waits.are_brief());
  converse(waits);
  EXPECT_TRUE(waits.are_brief());
}

TEST(spin_policy, are_brief_still_after_one_long_step) {
  spin_policy waits(2ms);
  converse(waits);
  waits.add(5ms);
  EXPECT_TRUE(waits.are_brief());
  waits.add(5ms);
  EXPECT_FALSE(waits.are_brief());
}

TEST(spin_policy, are_forgotten_after_a_pause) {
  spin_policy waits(2ms);
  converse(waits);
  waits.add(20ms);
  EXPECT_FALSE(waits.are_brief());
}

// An idle node of eight ranks: clusters of keepalives, far apart, for ever.
TEST(spin_policy, are_not_brief_where_a_few_messages_come_together) {
  spin_policy waits(2ms);
  for (int cluster = 0; cluster < 1000; ++cluster) {
    for (int i = 0; i < 7; ++i) {
      waits.add(i % 3 == 0 ? 1900us : 50us);
      ASSERT_FALSE(waits.are_brief()) << "in cluster " << cluster;
    }
    waits.add(20ms + 1ms * (cluster % 230));
    ASSERT_FALSE(waits.are_brief()) << "after cluster " << cluster;
  }
}

TEST(spin_policy, are_not_brief_at_a_steady_slow_rate) {
  spin_policy waits(2ms);
  for (int i = 0; i < 1000; ++i) {
    waits.add(3ms);
    ASSERT_FALSE(waits.are_brief());
  }
}

}  // namespace
