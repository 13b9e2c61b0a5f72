// Two ends come to share a key.
#include "troupe/transport/auth/key_agreement.hpp"

#include <gtest/gtest.h>

namespace troupe::transport::test {
namespace {

TEST(key_agreement, gives_both_ends_the_same_key_and_each_pair_another) {
  const key_agreement one, other, third;
  const auto here = one.agree(other.half());
  ASSERT_TRUE(here);
  EXPECT_EQ(*here, one.agree(other.half())) << "the halves stay the same";
  EXPECT_EQ(*here, other.agree(one.half()));
  EXPECT_FALSE(*here == *third.agree(one.half()));
  EXPECT_NE(one.half(), other.half());
}

// Points of small order (RFC 7748, section 6.1): whatever the other half, the result is zero.
TEST(key_agreement, refuses_a_half_that_makes_the_key_known) {
  const key_agreement mine;
  key_agreement::public_key theirs{};
  EXPECT_FALSE(mine.agree(theirs));
  theirs[0] = std::byte{1};
  EXPECT_FALSE(mine.agree(theirs));
}

}  // namespace
}  // namespace troupe::transport::test
