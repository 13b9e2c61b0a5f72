#include "troupe/transport/delivery/retransmit_queue.hpp"

#include <gtest/gtest.h>

namespace troupe::transport {
namespace {

retransmit_queue::message numbered(std::uint64_t n, std::size_t payload = 0) {
  auto m = std::make_shared<sent_message>();
  m->sequence = n;
  m->payloads.resize(1);
  m->payloads[0].size = payload;
  return m;
}

std::vector<std::uint64_t> numbers(const std::vector<retransmit_queue::message>& messages) {
  std::vector<std::uint64_t> n;
  for (const auto& m : messages) n.push_back(m->sequence);
  return n;
}

using list = std::vector<std::uint64_t>;

TEST(retransmit_queue, keeps_in_order_what_is_not_acknowledged) {
  retransmit_queue r;
  for (const std::uint64_t n : {2, 0, 1, 5}) r.keep(numbered(n, 10));
  EXPECT_EQ(numbers(r.all()), (list{0, 1, 2, 5}));
  EXPECT_EQ(r.bytes(), 40u);
  r.acknowledge(2);
  r.acknowledge(1);  // an old one
  EXPECT_EQ(numbers(r.all()), (list{2, 5}));
  EXPECT_EQ(r.acknowledged(), 2u);
  r.keep(numbered(1));  // the acknowledgement was faster
  EXPECT_EQ(r.size(), 2u);
  EXPECT_EQ(r.bytes(), 20u);
}

TEST(retransmit_queue, returns_what_follows_a_number) {
  retransmit_queue r;
  for (const std::uint64_t n : {0, 1, 2, 4, 5}) r.keep(numbered(n));
  EXPECT_EQ(numbers(r.from(0, 3)), (list{0, 1, 2}));
  EXPECT_EQ(numbers(r.from(1, 3)), (list{1, 2, 4}));
  EXPECT_EQ(numbers(r.from(5, 3)), (list{5}));
  EXPECT_TRUE(r.from(6, 3).empty());
  r.acknowledge(2);
  EXPECT_EQ(numbers(r.from(0, 9)), (list{2, 4, 5}));
  EXPECT_EQ(numbers(r.from(4, 9)), (list{4, 5}));
}

}  // namespace
}  // namespace troupe::transport
