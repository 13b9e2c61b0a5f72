// What a node has been lent reaches a third one where it lies: b is lent by a, and passes on to c.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/mapped_regions.hpp"
#include "tests/transport/lending/lending_fixture.hpp"
#include "troupe/transport/lending/lending_address.hpp"
#include "troupe/transport/lending/lending_note.hpp"

namespace troupe::transport::lending::test {
namespace {

using troupe::test::regions_mapped;

constexpr std::size_t size_passed = std::size_t{1} << 20;

struct passing_test : lending_test {
  passing_test() {
    begin(c, 2);
    for (auto* const other : {&a, &b}) {
      (*other)->add_peer(2, c->address());
      c->add_peer(other == &a ? 0 : 1, (*other)->address());
    }
    EXPECT_TRUE(all([&] { return lends_to(a, 2) && lends_to(b, 2) && lends_to(c, 2); }));
    settle();
  }

  // Is everybody lent to?
  static bool lends_to(lender& n, std::size_t count) {
    const auto routes = n->routes();
    return routes.size() == count && std::ranges::all_of(routes, [](const auto& one) {
             return one.lanes.find("lent") != std::string::npos;
           });
  }

  template <class Done>
  bool all(Done done) {
    const auto poll = [](lender& n) {
      if (n.net) n->progress();
    };
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (!done()) {
      poll(a);
      poll(b);
      poll(c);
      if (std::chrono::steady_clock::now() > end) return done();
    }
    return true;
  }

  // Until everybody has been told what there is.
  void settle() {
    int polls = 0;
    all([&] { return ++polls > 1000; });
  }

  incoming_message take(lender& n) {
    EXPECT_TRUE(all([&] { return !n.received.messages.empty(); }));
    if (n.received.messages.empty()) return {};
    auto out = std::move(n.received.messages.front());
    n.received.messages.erase(n.received.messages.begin());
    return out;
  }

  static outgoing_payload again(const incoming_message& got) {
    outgoing_payload out;
    out.data = got.payloads.at(0).data.get();
    out.size = got.payloads.at(0).size;
    out.keep = got.payloads.at(0).data;
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    return out;
  }

  // From a to b, and on to c.
  void pass() {
    auto made = a.payload(size_passed, 3);
    offset = a.memory->offset_of(made.data);
    send(a, 1, std::move(made));
    at_b = take(b);
    send(b, 2, again(at_b));
    at_c = take(c);
    ASSERT_EQ(at_c.payloads.size(), 1u);
    EXPECT_TRUE(at_c.payloads[0].read_only);
    EXPECT_TRUE(has_pattern(bytes(at_c), size_passed, 3));
  }

  static const std::byte* bytes(const incoming_message& got) {
    return got.payloads.at(0).data.get();
  }

  // As the kernel's word that b's process has ended.
  void b_ends() {
    at_b = {};
    inner_sinks[0]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
    inner_sinks[2]->on_peer_lost(1, {loss_kind::ended, "its process has ended"});
  }

  lender c;
  incoming_message at_b, at_c;
  std::uint64_t offset = 0;  // in a's memory
};

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
