// What is not lent, and what is refused.

#include <random>
#include <string>
#include "tests/transport/lending/lending_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/lending/lending_note.hpp"

namespace troupe::transport::lending::test {
namespace {

struct little_lending_test : lending_test {
  little_lending_test() {
    a.net.reset();
    b.net.reset();
    most_lent = 3 << 20;
    begin(a, 0);
    begin(b, 1);
    meet();
  }
};

TEST_F(little_lending_test, past_the_limit_payloads_are_sent) {
  std::vector<incoming_message> kept;
  for (int i = 0; i < 8; ++i) {
    send(a, 1, a.payload(1 << 20, 3));
    kept.push_back(next(b));
    EXPECT_EQ(kept.back().payloads[0].read_only, i < 3);
    EXPECT_TRUE(has_pattern(kept.back().payloads[0].data.get(), 1 << 20, 3));
  }
  kept.clear();
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
  send(a, 1, a.payload(1 << 20, 3));
  EXPECT_TRUE(next(b).payloads[0].read_only);
}

TEST_F(lending_test, one_peer_gets_half_of_the_arena_at_most) {
  std::vector<incoming_message> kept;
  std::size_t lent = 0;
  for (int i = 0; i < 20; ++i) {
    send(a, 1, a.payload(16 << 20, 3));
    kept.push_back(next(b));
    if (kept.back().payloads[0].read_only) lent += 16 << 20;
  }
  EXPECT_EQ(lent, a.memory->limit() / 2);
  EXPECT_FALSE(a->would_lend(1, a.memory->at(0), 16 << 20, 0));
}

TEST_F(lending_test, says_what_would_be_lent) {
  const auto in_arena = a.payload(1 << 20, 3);
  std::vector<std::byte> elsewhere(1 << 20);
  EXPECT_TRUE(a->would_lend(1, in_arena.data, in_arena.size, 0));
  EXPECT_FALSE(a->would_lend(1, in_arena.data, 100, 0));
  EXPECT_FALSE(a->would_lend(1, elsewhere.data(), elsewhere.size(), 0));
  EXPECT_FALSE(a->would_lend(7, in_arena.data, in_arena.size, 0));
  const auto ways = a->ways_to(1);
  ASSERT_EQ(ways.size(), 6u);
  EXPECT_EQ(ways[1].way, "lent where it lies");
  EXPECT_EQ(ways[2].way, "handed over");
  EXPECT_TRUE(a->ways_to(7).empty());
  a->close_peer(1, true);
  EXPECT_FALSE(a->would_lend(1, in_arena.data, in_arena.size, 0));
}

// What a member of the job that misbehaves may write into its notes: it is cut off, by name, and
// nothing outside its region is read.
struct hostile_note_test : lending_test, testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(each, hostile_note_test, testing::Range(0, 13));

TEST_P(hostile_note_test, ends_the_connection) {
  send(a, 1, a.payload(1 << 20, 3));
  auto got = next(b);
  const auto size = b.memory->size();
  const note_entry bad[] = {{entry_kind::lend, 0, 1, size, 64},
                            {entry_kind::lend, 0, 1, size - 63, 64},
                            {entry_kind::lend, 0, 1, ~0ULL, 64},
                            {entry_kind::lend, 0, 1, 64, ~0ULL},
                            {entry_kind::lend, 0, 1, 64, 0},
                            {entry_kind::give_back, 0, 77, 0, 64},
                            {entry_kind::give_back, 0, 1, 0, std::uint64_t{1} << 30},
                            {entry_kind::end, 0, 99, 0, 0},
                            {entry_kind::lend, 1, 1, 0, 64},
                            {entry_kind::hand, 0, 1, size - 63, 64},
                            {entry_kind::hand, 0, 1, 64, ~0ULL},
                            {entry_kind::hand_back, 0, 77, 0, 64},
                            // That was lent, not handed over.
                            {entry_kind::hand_back, 0, 1, 0, std::uint64_t{1} << 20}};
  incoming_message message;
  message.from = 1;
  const auto& entry = bad[GetParam()];
  message.envelope = patterned_frame(40, 1);
  append_note(message.envelope, {&entry, 1}, entry.index + (entry.kind != entry_kind::end), false);
  inner_sinks[0]->on_message(std::move(message));
  a->progress();
  EXPECT_TRUE(a.received.messages.empty());
  ASSERT_EQ(a.received.lost.size(), 1u);
  EXPECT_EQ(a.received.lost[0].first, 1u);
  EXPECT_NE(a.received.lost[0].second.text.find("malformed"), std::string::npos);
  EXPECT_THROW(a->send(1, 0, patterned_frame(40, 1)), error);
}

}  // namespace
}  // namespace troupe::transport::lending::test
