#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "troupe/transport/auth/signed_bytes.hpp"

namespace troupe::transport {

TEST(signed_bytes, are_proven_by_the_same_key_alone) {
  const job_secret key;
  const std::vector<std::byte> original(100, std::byte{7});
  auto bytes = original;
  append_proof(bytes, key);
  ASSERT_EQ(bytes.size(), original.size() + proof_size);
  const auto covered = strip_proof(bytes, key);
  ASSERT_TRUE(covered);
  EXPECT_TRUE(std::ranges::equal(*covered, original));
  EXPECT_FALSE(strip_proof(bytes, job_secret()));
}

TEST(signed_bytes, are_refused_when_any_bit_has_changed) {
  const job_secret key;
  std::vector<std::byte> bytes(5, std::byte{1});
  append_proof(bytes, key);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto other = bytes;
    other[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(strip_proof(other, key)) << "bit " << bit;
  }
}

TEST(signed_bytes, are_refused_at_any_other_length) {
  const job_secret key;
  std::vector<std::byte> bytes;
  append_proof(bytes, key);
  ASSERT_TRUE(strip_proof(bytes, key));  // nothing, proven
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(strip_proof(std::span(bytes).first(size), key)) << size;
  bytes.push_back({});
  EXPECT_FALSE(strip_proof(bytes, key));
}

}  // namespace troupe::transport
