// When loans end: after their connections, nodes and failures to send.

#include "tests/mapped_regions.hpp"
#include "tests/transport/lending/lending_fixture.hpp"

namespace troupe::transport::lending::test {
namespace {

using troupe::test::regions_mapped;

TEST_F(lending_test, memory_stays_while_a_peer_that_was_left_may_read_it) {
  send(a, 1, a.payload(1 << 20, 3));
  auto got = next(b);
  a->close_peer(1, true);
  run_until([] { return false; }, 20ms, a, b);
  EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 3));
  got = {};  // this process is the borrower's, too, so that it is known
  run_until([] { return false; }, 20ms, a, b);
  EXPECT_EQ(a.in_use(), 0u);
}

TEST_F(lending_test, memory_outlives_both_nodes) {
  send(a, 1, a.payload(1 << 20, 3));
  send(b, 0, b.payload(1 << 20, 4));
  auto at_b = next(b);
  auto at_a = next(a);
  a.net.reset();
  EXPECT_TRUE(has_pattern(at_b.payloads[0].data.get(), 1 << 20, 3));
  b.net.reset();
  EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  EXPECT_TRUE(has_pattern(at_b.payloads[0].data.get(), 1 << 20, 3));
  EXPECT_TRUE(has_pattern(at_a.payloads[0].data.get(), 1 << 20, 4));
  at_b = {};
  EXPECT_EQ(a.in_use(), 0u);
  at_a = {};
  EXPECT_EQ(b.in_use(), 0u);
}

TEST_F(lending_test, a_peer_that_is_refused_ends_no_earlier_loan) {
  send(a, 1, a.payload(1 << 20, 3));
  auto got = next(b);
  a->close_peer(1, true);
  EXPECT_TRUE(run([&] { return !b.received.lost.empty(); }));
  inner[1]->before_adding = [] { throw transport_error("refused"); };
  EXPECT_THROW(b->add_peer(0, a->address()), transport_error);
  EXPECT_GE(a.in_use(), std::size_t{1} << 20);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 3));
  got = {};
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, a_peer_that_comes_again_is_lent_to_again) {
  send(a, 1, a.payload(1 << 20, 3));
  auto before = next(b);
  b.net.reset();
  EXPECT_TRUE(run_until([&] { return !a.received.lost.empty(); }, 30s, a));
  begin(b, 1);
  meet();
  send(a, 1, a.payload(1 << 20, 4));
  auto after = next(b);
  EXPECT_TRUE(has_pattern(before.payloads[0].data.get(), 1 << 20, 3));
  EXPECT_TRUE(has_pattern(after.payloads[0].data.get(), 1 << 20, 4));
  before = {};
  after = {};
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, the_region_of_a_peer_that_is_lost_is_unmapped) {
  const auto before = regions_mapped();
  send(b, 0, b.payload(1 << 20, 3));
  auto got = next(a);
  b.net.reset();
  EXPECT_TRUE(run_until([&] { return !a.received.lost.empty(); }, 30s, a));
  EXPECT_EQ(regions_mapped(), before - 1);  // a's, which b had mapped
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 3));
  got = {};
  EXPECT_EQ(regions_mapped(), before - 2);
}

TEST_F(lending_test, what_could_not_be_told_is_told_later) {
  send(a, 1, a.payload(1 << 20, 3));
  auto got = next(b);
  outgoing_payload back;
  back.data = got.payloads[0].data.get();
  back.size = 1 << 20;
  back.keep = std::move(got.payloads[0].data);
  std::vector<outgoing_payload> payloads;
  payloads.push_back(std::move(back));
  inner[1]->failures = 1;
  EXPECT_THROW(b->send(0, 0, patterned_frame(40, 1), std::move(payloads)), std::bad_alloc);
  payloads.clear();
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, what_could_not_be_sent_is_not_lent) {
  inner[0]->failures = 1;
  EXPECT_THROW(send(a, 1, a.payload(1 << 20, 3)), std::bad_alloc);
  EXPECT_EQ(a.in_use(), 0u);
}

TEST_F(lending_test, nothing_is_lent_once_the_connection_is_closed) {
  auto p = a.payload(1 << 20, 3);
  // Between what `send` looks at and what it does.
  static lending_test* self = nullptr;
  self = this;
  p.freeze = [](const outgoing_payload& one) {
    self->a->close_peer(1, false);
    return one.keep;
  };
  try {
    send(a, 1, std::move(p));
  } catch (const error&) {  // it may be lost already
  }
  run_until([] { return false; }, 20ms, b);
  for (const auto& m : b.received.messages)
    if (!m.payloads.empty()) {
      EXPECT_FALSE(m.payloads[0].read_only);
    }
}

TEST_F(lending_test, a_peer_is_told_once_it_can_be) {
  b.net.reset();
  EXPECT_TRUE(run_until([&] { return !a.received.lost.empty(); }, 30s, a));
  begin(b, 1);
  // Another thread polls while the peer is added.
  inner[0]->before_adding = [&] {
    for (int i = 0; i < 1000; ++i) a->progress();
  };
  meet();
}

}  // namespace
}  // namespace troupe::transport::lending::test
