// When copies through shared memory are given up for CMA, and taken up again.
#include "troupe/transport/ucx/copy_speed.hpp"

#include <gtest/gtest.h>

namespace troupe::transport::ucx {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mib = 1 << 20;

TEST(copy_speed, begins_with_copies) {
  copy_speed speed;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(speed.worthwhile());
}

TEST(copy_speed, gives_slow_copies_up_but_for_a_probe_now_and_then) {
  copy_speed speed;
  for (int i = 0; i < 10; ++i) speed.took(mib, 430us);
  EXPECT_TRUE(speed.slow());
  EXPECT_NEAR(speed.speed(), 2.4, 1);
  unsigned copied = 0;
  for (unsigned i = 0; i < 10 * copy_speed::probe; ++i) copied += speed.worthwhile();
  EXPECT_EQ(copied, 10u);
}

TEST(copy_speed, takes_copies_up_again_after_fast_probes) {
  copy_speed speed;
  for (int i = 0; i < 100; ++i) speed.took(mib, 430us);
  ASSERT_TRUE(speed.slow());
  speed.took(mib, 47us);
  EXPECT_FALSE(speed.slow());
}

TEST(copy_speed, one_interrupted_copy_changes_nothing) {
  copy_speed speed;
  for (int i = 0; i < 10; ++i) speed.took(mib, 50us);
  speed.took(mib, 10ms);
  speed.took(mib, 10ms);
  EXPECT_FALSE(speed.slow());
}

}  // namespace
}  // namespace troupe::transport::ucx
