// What a node has been lent reaches a third one where it lies: b is lent by a, and passes on to c.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/mapped_regions.hpp"
#include "tests/transport/lending/passing_fixture.hpp"
#include "troupe/transport/lending/lending_address.hpp"
#include "troupe/transport/lending/lending_note.hpp"

namespace troupe::transport::lending::test {
namespace {

using troupe::test::regions_mapped;

TEST_F(passing_test, a_third_node_reads_what_was_lent_where_it_lies) {
  pass();
  EXPECT_EQ(b.in_use(), 0u);
  EXPECT_EQ(c.pool.out(), 0);
  // The same bytes, lent to c by their owner, are at the same place.
  auto made = a.payload(64 << 10, 4);
  const auto there = a.memory->offset_of(made.data);
  send(a, 2, std::move(made));
  const auto direct = take(c);
  EXPECT_EQ(bytes(direct) - there, bytes(at_c) - offset);
}

TEST_F(passing_test, the_owner_has_it_back_when_the_third_node_is_done) {
  pass();
  at_b = {};
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  at_c = {};
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
  EXPECT_EQ(a->count().lent + b->count().lent + c->count().borrowed, 0u);
}

TEST_F(passing_test, a_part_can_be_passed_on) {
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  auto part = again(at_b);
  part.data += 4096;
  part.size = 100'000;
  send(b, 2, std::move(part));
  at_c = take(c);
  EXPECT_EQ(b.in_use(), 0u);
  for (std::size_t i = 0; i < 100'000; ++i) ASSERT_EQ(bytes(at_c)[i], pattern(3, 4096 + i));
}

TEST_F(passing_test, what_came_by_a_third_node_is_copied_when_sent_on) {
  pass();
  send(c, 1, again(at_c));
  const auto copy = take(b);
  EXPECT_TRUE(has_pattern(bytes(copy), size_passed, 3));
  EXPECT_GE(c.in_use(), size_passed);
  send(c, 0, again(at_c));
  EXPECT_TRUE(has_pattern(bytes(take(a)), size_passed, 3));
}

TEST_F(passing_test, memory_stays_for_the_third_node_when_the_second_ends) {
  pass();
  b_ends();
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  at_c = {};
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

TEST_F(passing_test, the_owner_waits_until_the_third_node_knows_of_the_end) {
  pass();
  at_b = {};
  inner_sinks[0]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
  at_c = {};
  settle();
  EXPECT_GE(a.in_use(), size_passed);  // more may be on its way to c
  inner_sinks[2]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

TEST_F(passing_test, what_nobody_passed_on_is_back_at_once) {
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  b_ends();
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

TEST_F(passing_test, the_third_node_may_end_too) {
  pass();
  b_ends();
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  inner_sinks[0]->on_peer_lost(2, {loss_kind::ended, "its process has ended"});
  EXPECT_EQ(a.in_use(), 0u);
}

TEST_F(passing_test, the_owner_may_end) {
  const auto mapped = regions_mapped();
  pass();
  a.net.reset();
  EXPECT_TRUE(all([&] { return !b.received.lost.empty() && !c.received.lost.empty(); }));
  EXPECT_TRUE(has_pattern(bytes(at_b), size_passed, 3));
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  send(b, 2, again(at_b));  // copied: c may have let go of the owner's memory
  EXPECT_TRUE(has_pattern(bytes(take(c)), size_passed, 3));
  at_b = {};
  at_c = {};
  EXPECT_TRUE(all([&] { return regions_mapped() == mapped - 1; }));
}

TEST_F(passing_test, what_is_on_its_way_when_the_owner_ends_arrives) {
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  send(b, 2, again(at_b));
  const auto sink_of_c = inner_sinks[2];
  sink_of_c->on_peer_lost(0, {loss_kind::ended, "its process has ended"});
  at_c = take(c);
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
}

TEST_F(passing_test, what_could_not_be_sent_is_not_passed_on) {
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  inner[1]->failures = 1;
  EXPECT_THROW(send(b, 2, again(at_b)), std::bad_alloc);
  at_b = {};
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

TEST_F(passing_test, memory_stays_for_a_third_node_that_the_owner_has_lost) {
  pass();
  inner_sinks[0]->on_peer_lost(2, {loss_kind::broken, "it was stopped, perhaps"});
  b_ends();
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
}

// c has the bytes twice: lent by a, and passed on by b. What it sends is passed on by virtue of the
// first, whichever is let go first.
TEST_F(passing_test, the_loan_is_kept_by_which_bytes_are_passed_on) {
  auto made = a.payload(size_passed, 3);
  auto twice = made;
  send(a, 1, std::move(made));
  send(a, 2, std::move(twice));
  at_b = take(b);
  auto direct = take(c);
  send(b, 2, again(at_b));
  at_c = take(c);
  send(c, 1, again(at_c));
  auto back = take(b);
  EXPECT_EQ(bytes(back), bytes(at_b));
  direct = {};
  at_b = {};
  at_c = {};
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  inner_sinks[0]->on_peer_lost(2, {loss_kind::ended, "its process has ended"});
  settle();
  EXPECT_GE(a.in_use(), size_passed);
  EXPECT_TRUE(has_pattern(bytes(back), size_passed, 3));
  back = {};
  inner_sinks[1]->on_peer_lost(2, {loss_kind::ended, "its process has ended"});
  EXPECT_TRUE(all([&] { return a.in_use() == 0; }));
}

TEST_F(passing_test, what_was_passed_on_cannot_be_given_back) {
  pass();
  incoming_message message;
  message.from = 2;
  message.envelope = patterned_frame(40, 1);
  const note_entry entry{entry_kind::give_back, 0, 1, offset + 4096, 64};
  append_note(message.envelope, {&entry, 1}, 1, false);
  inner_sinks[1]->on_message(std::move(message));
  b->progress();
  EXPECT_TRUE(b.received.messages.empty());
  ASSERT_EQ(b.received.lost.size(), 1u);
  EXPECT_EQ(b.received.lost[0].first, 2u);
}

// Messages may overtake each other.
TEST_F(passing_test, nothing_is_passed_on_once_the_third_node_has_let_go) {
  send(a, 1, a.payload(size_passed, 3));
  at_b = take(b);
  inner_sinks[2]->on_peer_lost(0, {loss_kind::ended, "its process has ended"});
  settle();
  incoming_message late;
  late.from = 2;
  const auto word = entry_of(entry_kind::can_read_of, decode(a->address(), secret).node);
  append_note(late.envelope, {&word, 1}, 0, true);
  inner_sinks[1]->on_message(std::move(late));
  c.received.lost.clear();
  send(b, 2, again(at_b));
  at_c = take(c);
  EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  EXPECT_GE(b.in_use(), size_passed);  // a copy
  EXPECT_TRUE(c.received.lost.empty());
}

// What a member of the job that misbehaves may say to c.
TEST_F(passing_test, nonsense_ends_the_connection) {
  using kind = entry_kind;
  node_number nobody{};
  const auto size = a.memory->size();
  const auto owner = decode(a->address(), secret).node;
  const std::vector<note_entry> bad[] = {
      {{kind::pass, 0, 1, 64, 64}},
      {entry_of(kind::of_node, nobody), {kind::pass, 0, 1, 64, 64}},
      {entry_of(kind::of_node, owner), {kind::pass, 0, 1, size, 64}},
      {entry_of(kind::of_node, owner), {kind::pass, 0, 1, size - 63, 64}},
      {entry_of(kind::of_node, owner), {kind::pass, 0, 1, 64, 0}},
      {entry_of(kind::of_node, owner), {kind::pass, 0, 1, 64, ~0ULL}},
      {entry_of(kind::of_node, owner), {kind::pass, 0, 1, 64, 64}, {kind::pass, 1, 1, 64, 64}},
  };
  for (const auto& entries : bad) {
    incoming_message message;
    message.from = 1;
    message.envelope = patterned_frame(40, 1);
    const auto payloads = static_cast<std::uint32_t>(
        std::ranges::count_if(entries, [](const auto& e) { return e.kind == kind::pass; }));
    append_note(message.envelope, entries, payloads, false);
    inner_sinks[2]->on_message(std::move(message));
    c->progress();
    ASSERT_EQ(c.received.lost.size(), 1u);
    EXPECT_NE(c.received.lost[0].second.text.find("malformed"), std::string::npos);
    EXPECT_TRUE(c.received.messages.empty());
    c.received.lost.clear();
    // Again, as another connection.
    b.net.reset();
    a.received.lost.clear();
    EXPECT_TRUE(all([&] { return !a.received.lost.empty(); }));
    begin(b, 1);
    for (auto* const other : {&a, &c}) {
      (*other)->add_peer(1, b->address());
      b->add_peer(other == &a ? 0 : 2, (*other)->address());
    }
    settle();
  }
}

}  // namespace
}  // namespace troupe::transport::lending::test
