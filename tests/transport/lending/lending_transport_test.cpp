// Payloads that are read where they lie.

#include <cstring>
#include "tests/transport/lending/lending_fixture.hpp"

namespace troupe::transport::lending::test {
namespace {

TEST_F(lending_test, a_payload_is_read_where_it_lies) {
  send(a, 1, a.payload(1 << 20, 3));
  EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  {
    auto got = next(b);
    ASSERT_EQ(got.payloads.size(), 1u);
    EXPECT_TRUE(got.payloads[0].read_only);
    EXPECT_EQ(got.payloads[0].size, std::size_t{1} << 20);
    EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 3));
    EXPECT_FALSE(b.holds(got.payloads[0].data.get()));
    EXPECT_EQ(b.pool.out(), 0);
    EXPECT_TRUE(has_pattern(got.envelope.data(), 40, 1));
    EXPECT_EQ(got.envelope.size(), 40u);
    EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  }
  // Dropped, and nothing else is sent: the loan ends all the same.
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, small_payloads_are_sent) {
  send(a, 1, a.payload(16'000, 3));
  auto got = next(b);
  EXPECT_FALSE(got.payloads[0].read_only);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 16'000, 3));
}

// What travels is what it was when it was sent, however late the transport reads it.
TEST_F(lending_test, what_is_written_afterwards_is_not_sent) {
  for (const std::size_t size : {16'000, 40'000}) {
    auto p = a.payload(size, 3);
    p.freeze = [](const outgoing_payload&) { return std::shared_ptr<const void>(); };
    auto* const bytes = const_cast<std::byte*>(p.data);
    const auto keep = p.keep;
    inner[0]->before_sending = [&](const auto& payloads) {
      ASSERT_EQ(payloads.size(), 1u) << "it is lent";
      std::memset(bytes, 0, size);
    };
    send(a, 1, std::move(p));
    const auto got = next(b);
    EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), size, 3)) << size;
  }
}

// The copy is nobody else's, so that the receiver may write to it.
TEST_F(lending_test, foreign_memory_is_copied_once_and_handed_over) {
  send(a, 1, patterned_payload(100'000, 5));
  auto got = next(b);
  EXPECT_FALSE(got.payloads[0].read_only);
  EXPECT_EQ(b.pool.out(), 0);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 100'000, 5));
  send(a, 1, patterned_payload(60'000, 5));  // cheaper to send
  got = next(b);
  EXPECT_EQ(b.pool.out(), 1);
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, a_payload_that_cannot_be_frozen_is_copied_and_handed_over) {
  auto p = a.payload(1 << 20, 5);
  p.freeze = [](const outgoing_payload&) { return std::shared_ptr<const void>(); };
  const auto keep = p.keep;
  auto* const place = const_cast<std::byte*>(p.data);
  send(a, 1, std::move(p));
  std::memset(place, 0, 1 << 20);
  auto got = next(b);
  EXPECT_FALSE(got.payloads[0].read_only);
  EXPECT_EQ(b.pool.out(), 0);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 5));
}

TEST_F(lending_test, payloads_that_are_lent_and_sent_arrive_in_their_places) {
  std::vector<outgoing_payload> payloads;
  const std::vector<std::size_t> sizes = {100, 1 << 20, 50, 200'000, 300'000, 16, 70'000};
  for (std::size_t i = 0; i < sizes.size(); ++i) payloads.push_back(a.payload(sizes[i], i));
  a->send(1, 0, patterned_frame(40, 1), std::move(payloads));
  const auto got = next(b);
  ASSERT_EQ(got.payloads.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ASSERT_EQ(got.payloads[i].size, sizes[i]);
    EXPECT_EQ(got.payloads[i].read_only, sizes[i] >= 16'384) << i;
    EXPECT_TRUE(has_pattern(got.payloads[i].data.get(), sizes[i], i));
  }
}

TEST_F(lending_test, an_owner_finds_its_own_memory_again) {
  auto sent = a.payload(1 << 20, 3);
  const auto* const place = sent.data;
  send(a, 1, std::move(sent));
  auto got = next(b);
  // Half of it, then all: both times the same bytes.
  outgoing_payload back;
  back.data = got.payloads[0].data.get() + 4096;
  back.size = 1 << 19;
  back.keep = got.payloads[0].data;
  send(b, 0, std::move(back));
  auto half = next(a);
  EXPECT_EQ(half.payloads[0].data.get(), place + 4096);
  EXPECT_TRUE(half.payloads[0].read_only);
  outgoing_payload all;
  all.data = got.payloads[0].data.get();
  all.size = 1 << 20;
  all.keep = std::move(got.payloads[0].data);
  send(b, 0, std::move(all));
  auto whole = next(a);
  EXPECT_EQ(whole.payloads[0].data.get(), place);
  EXPECT_TRUE(has_pattern(whole.payloads[0].data.get(), 1 << 20, 3));
  // b has nothing of it any more; a's own tensors keep it.
  run_until([] { return false; }, 20ms, a, b);
  EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  half = {};
  whole = {};
  EXPECT_EQ(a.in_use(), 0u);
}

TEST_F(lending_test, the_end_of_a_loan_travels_with_the_next_message) {
  send(a, 1, a.payload(1 << 20, 3));
  next(b);  // dropped
  b->send(0, 0, patterned_frame(40, 1));
  a->progress();
  EXPECT_EQ(a.received.messages.size(), 1u);
  EXPECT_EQ(a.in_use(), 0u);
}

TEST_F(lending_test, everything_is_counted_but_the_notes) {
  send(a, 1, a.payload(1 << 20, 3));
  next(b);
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
  EXPECT_EQ(a->count().messages_sent, 1u);
  EXPECT_EQ(a->count().bytes_sent, 40u + (1u << 20));
  EXPECT_EQ(a->count().messages_received, 0u);
  EXPECT_EQ(b->count().bytes_received, 40u + (1u << 20));
}

TEST_F(lending_test, a_sleeper_is_woken_to_tell_that_a_loan_has_ended) {
  send(a, 1, a.payload(1 << 20, 3));
  auto got = next(b);
  ASSERT_TRUE(run_until([&] { return b->arm(); }, 10s, b));
  got = {};
  EXPECT_FALSE(b->arm());  // it has told
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

}  // namespace
}  // namespace troupe::transport::lending::test
