// When a node polls through its waits: in a conversation, not for an idle node's few messages.

#include "troupe/actors/scheduler/spin_policy.hpp"

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using troupe::spin_policy;

void converse(spin_policy& policy) {
  for (int i = 0; i < 20; ++i) policy.add_wait(300us);
}

TEST(spin_policy, finds_waits_brief_in_a_conversation) {
  spin_policy policy(2ms);
  EXPECT_FALSE(policy.waits_are_brief());
  converse(policy);
  EXPECT_TRUE(policy.waits_are_brief());
}

TEST(spin_policy, finds_waits_brief_still_after_one_long_step) {
  spin_policy policy(2ms);
  converse(policy);
  policy.add_wait(5ms);
  EXPECT_TRUE(policy.waits_are_brief());
  policy.add_wait(5ms);
  EXPECT_FALSE(policy.waits_are_brief());
}

TEST(spin_policy, forgets_brief_waits_after_a_pause) {
  spin_policy policy(2ms);
  converse(policy);
  policy.add_wait(20ms);
  EXPECT_FALSE(policy.waits_are_brief());
}

// An idle node of eight ranks: clusters of keepalives, far apart, for ever.
TEST(spin_policy, spins_briefly_where_a_few_messages_come_together) {
  spin_policy policy(2ms);
  for (int cluster = 0; cluster < 1000; ++cluster) {
    for (int i = 0; i < 7; ++i) {
      policy.add_wait(i % 3 == 0 ? 1900us : 50us);
      ASSERT_FALSE(policy.waits_are_brief()) << "in cluster " << cluster;
    }
    policy.add_wait(20ms + 1ms * (cluster % 230));
    ASSERT_FALSE(policy.waits_are_brief()) << "after cluster " << cluster;
  }
}

TEST(spin_policy, spins_briefly_at_a_steady_slow_rate) {
  spin_policy policy(2ms);
  for (int i = 0; i < 1000; ++i) {
    policy.add_wait(3ms);
    ASSERT_FALSE(policy.waits_are_brief());
  }
}

}  // namespace
