// Memory that is handed over, and handed back.

#include <cstring>

#include "tests/mapped_regions.hpp"
#include "tests/transport/lending/lending_fixture.hpp"

namespace troupe::transport::lending::test {
namespace {

constexpr std::size_t mib = 1 << 20;

// What came, as its receiver sends it on: nobody refers to it afterwards.
outgoing_payload moved_on(incoming_payload&& came) {
  outgoing_payload out;
  out.data = came.data.get();
  out.size = came.size;
  out.keep = std::move(came.data);
  out.take = &take_all;
  return out;
}

TEST_F(lending_test, memory_that_is_handed_over_is_the_receivers) {
  auto given = a.given_payload(mib, 3);
  auto* const place = const_cast<std::byte*>(given.data);
  send(a, 1, std::move(given));
  auto got = next(b);
  ASSERT_FALSE(got.payloads[0].read_only);
  EXPECT_EQ(b.pool.out(), 0);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), mib, 3));
  got.payloads[0].data.get()[77] = std::byte{42};
  EXPECT_EQ(place[77], std::byte{42});  // the same memory
  EXPECT_GE(a.in_use(), mib);
  got = {};
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, memory_that_is_handed_back_is_its_owners_block_again) {
  for (int round = 0; round < 3; ++round) {
    auto given = a.given_payload(mib, 3);
    const auto* const place = given.data;
    send(a, 1, std::move(given));
    auto got = next(b);
    got.payloads[0].data.get()[5] = std::byte{7};
    send(b, 0, moved_on(std::move(got.payloads[0])));
    auto back = next(a);
    ASSERT_FALSE(back.payloads[0].read_only);
    EXPECT_EQ(back.payloads[0].data.get(), place);
    EXPECT_EQ(place[5], std::byte{7});
    EXPECT_EQ(a->count().lent, 0u);  // no message more is needed
    EXPECT_EQ(b->count().borrowed, 0u);
    // Of which it is the only owner: no layers grow around it.
    EXPECT_EQ(back.payloads[0].data.use_count(), 1);
    back = {};
    EXPECT_EQ(a.in_use(), 0u);
  }
}

// It is still written to at the receiver, so that its owner gets a copy.
TEST_F(lending_test, memory_that_was_handed_over_and_is_kept_is_copied) {
  send(a, 1, a.given_payload(mib, 3));
  auto got = next(b);
  outgoing_payload lent;
  lent.data = got.payloads[0].data.get();
  lent.size = mib;
  lent.keep = got.payloads[0].data;
  send(b, 0, std::move(lent));
  auto back = next(a);
  std::memset(got.payloads[0].data.get(), 0, mib);
  EXPECT_TRUE(has_pattern(back.payloads[0].data.get(), mib, 3));
  EXPECT_FALSE(a.holds(back.payloads[0].data.get()));
}

TEST_F(lending_test, a_part_of_what_was_handed_over_is_not_handed_back) {
  send(a, 1, a.given_payload(mib, 3));
  auto got = next(b);
  auto part = moved_on(std::move(got.payloads[0]));
  part.data += 4096;
  part.size = mib / 2;
  part.take = nullptr;
  send(b, 0, std::move(part));
  const auto back = next(a);
  EXPECT_FALSE(a.holds(back.payloads[0].data.get()));
  for (std::size_t i = 0; i < mib / 2; ++i)
    ASSERT_EQ(back.payloads[0].data.get()[i], pattern(3, i + 4096)) << i;
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

// Somebody else reads it, such as a third node that it was passed on to.
TEST_F(lending_test, memory_that_others_read_is_not_handed_back) {
  send(a, 1, a.given_payload(mib, 3));
  auto got = next(b);
  auto shared = moved_on(std::move(got.payloads[0]));
  shared.take = [](const outgoing_payload&) { return std::shared_ptr<std::byte>(); };
  send(b, 0, std::move(shared));
  const auto back = next(a);
  EXPECT_FALSE(a.holds(back.payloads[0].data.get()));
  EXPECT_TRUE(has_pattern(back.payloads[0].data.get(), mib, 3));
}

TEST_F(lending_test, what_could_not_be_sent_is_not_handed_over) {
  inner[0]->failures = 1;
  EXPECT_THROW(send(a, 1, a.given_payload(mib, 3)), std::bad_alloc);
  EXPECT_EQ(a->count().lent, 0u);
  EXPECT_EQ(a.in_use(), 0u);
}

// Its memory has gone with it, so that the owner learns of its end.
TEST_F(lending_test, what_could_not_be_handed_back_has_ended) {
  send(a, 1, a.given_payload(mib, 3));
  auto got = next(b);
  inner[1]->failures = 1;
  EXPECT_THROW(send(b, 0, moved_on(std::move(got.payloads[0]))), std::bad_alloc);
  got = {};
  EXPECT_EQ(b->count().borrowed, 0u);
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
  EXPECT_EQ(a->count().lent, 0u);
}

// The one who has it may write, also once the owner's node has ended.
TEST_F(lending_test, memory_that_was_handed_over_outlives_its_owners_node) {
  send(a, 1, a.given_payload(mib, 3));
  auto got = next(b);
  a.net.reset();
  std::memset(got.payloads[0].data.get(), 1, mib);
  EXPECT_GE(a.in_use(), mib);
  EXPECT_TRUE(run_until([&] { return !b.received.lost.empty(); }, 30s, b));
  std::memset(got.payloads[0].data.get(), 2, mib);
  got = {};
  EXPECT_TRUE(run_until([&] { return a.in_use() == 0; }, 30s, b));
}

TEST_F(lending_test, past_the_limit_memory_is_sent_instead_of_handed_over) {
  std::vector<incoming_message> all;
  for (int i = 0; i < 9; ++i) {
    send(a, 1, a.given_payload(16 * mib, 3));
    all.push_back(next(b));
  }
  EXPECT_EQ(b.pool.out(), 1);
  EXPECT_TRUE(has_pattern(all.back().payloads[0].data.get(), 16 * mib, 3));
}

}  // namespace
}  // namespace troupe::transport::lending::test
