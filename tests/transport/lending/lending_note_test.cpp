#include "troupe/transport/lending/lending_note.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::lending {
namespace {

frame frame_with(std::string_view text, std::size_t capacity = 256) {
  frame out(std::max(capacity, text.size()));
  std::memcpy(out.data(), text.data(), text.size());
  out.resize(text.size());
  return out;
}

std::string_view text_of(const frame& f) {
  return {reinterpret_cast<const char*>(f.data()), f.size()};
}

const std::vector<note_entry> some_entries = {{entry_kind::can_read},
                                              {entry_kind::lend, 0, 17, 4096, 100'000},
                                              {entry_kind::give_back, 2, 1ULL << 40, 64, 128},
                                              {entry_kind::end, 0, 12, 0, 1}};

TEST(lending_note, comes_off_as_it_was_put_on) {
  for (const std::string_view text : {"", "a", "12345678", "a longer envelope"}) {
    for (const std::size_t capacity : {1u, 64u, 4096u}) {
      auto f = frame_with(text, capacity);
      append_note(f, some_entries, 3, false);
      note got;
      take_note(f, got);
      EXPECT_EQ(text_of(f), text);
      EXPECT_EQ(got.payloads, 3u);
      EXPECT_FALSE(got.alone);
      ASSERT_EQ(got.entries.size(), some_entries.size());
      EXPECT_EQ(std::memcmp(got.entries.data(), some_entries.data(),
                            some_entries.size() * sizeof(note_entry)),
                0);
    }
  }
}

TEST(lending_note, an_entry_may_name_a_node) {
  node_number node;
  for (std::size_t i = 0; i < node.size(); ++i) node[i] = static_cast<std::byte>(i * 17);
  const auto entry = entry_of(entry_kind::whose, node);
  EXPECT_EQ(entry.kind, entry_kind::whose);
  EXPECT_EQ(node_of(entry), node);
}

TEST(lending_note, may_be_alone) {
  frame f(64);
  append_note(f, {}, 0, true);
  note got;
  take_note(f, got);
  EXPECT_TRUE(got.alone);
  EXPECT_TRUE(f.empty());
}

TEST(lending_note, stays_in_the_frame_of_a_small_message) {
  auto f = frame_with("small", frame::small_capacity);
  const auto* const before = f.data();
  append_note(f, {}, 0, false);
  EXPECT_EQ(f.data(), before);
  EXPECT_EQ(f.size(), 8u + 16u);
}

TEST(lending_note, that_says_nothing_is_taken_off_at_once) {
  auto f = frame_with("small", frame::small_capacity);
  append_note(f, {}, 2, false);
  frame other(f.bytes());
  EXPECT_FALSE(take_empty_note(f, 1)) << "a payload is missing";
  EXPECT_TRUE(take_empty_note(f, 2));
  EXPECT_EQ(f.size(), 5u);
  note got;
  take_note(other, got);
  EXPECT_EQ(other.size(), f.size());
  EXPECT_EQ(got.payloads, 2u);
}

TEST(lending_note, that_says_something_is_not_taken_for_nothing) {
  const auto refused = [](frame& f, std::size_t payloads) {
    const auto before = f.size();
    EXPECT_FALSE(take_empty_note(f, payloads));
    EXPECT_EQ(f.size(), before);
  };
  auto f = frame_with("an envelope");
  append_note(f, some_entries, 3, false);
  refused(f, 3);
  auto alone = frame_with("");
  append_note(alone, {}, 0, true);
  refused(alone, 0);
  auto none = frame_with("no note at all, but long enough for one");
  refused(none, 0);
  auto lies = frame_with("an envelope");
  append_note(lies, {}, 0, false);
  lies.data()[lies.size() - 8] ^= std::byte{64};  // the envelope's length
  refused(lies, 0);
}

// Throws what a note with this change does.
template <class Change>
void expect_refused(Change change, const char* why) {
  auto entries = some_entries;
  std::uint32_t payloads = 3;
  bool alone = false;
  change(entries, payloads, alone);
  auto f = frame_with("an envelope");
  append_note(f, entries, payloads, alone);
  note got;
  try {
    take_note(f, got);
    ADD_FAILURE() << "taken: " << why;
  } catch (const decode_error& e) {
    EXPECT_NE(std::string_view(e.what()).find(why), std::string_view::npos) << e.what();
  }
}

TEST(lending_note, nonsense_is_refused) {
  using entries = std::vector<note_entry>;
  expect_refused([](entries& e, auto&, auto&) { e[1].index = 2; }, "out of order");
  expect_refused([](entries& e, auto&, auto&) { e[2].index = 3; }, "do not exist");
  expect_refused([](entries& e, auto&, auto&) { e[2].index = 0xffffffff; }, "do not exist");
  expect_refused([](entries& e, auto&, auto&) { e[0].kind = entry_kind{0}; }, "unknown kind");
  expect_refused([](entries& e, auto&, auto&) { e[0].kind = entry_kind{17}; }, "unknown kind");
  expect_refused([](entries&, auto& p, auto&) { p = 1'000'000; }, "too many payloads");
  expect_refused([](entries& e, auto& p, auto& a) { e.clear(), p = 0, a = true; }, "no message");
  note got;
  for (std::size_t size = 0; size < 100; ++size) {
    frame zeros(std::max<std::size_t>(size, 1));
    std::memset(zeros.data(), 0, size);
    zeros.resize(size);
    EXPECT_THROW(take_note(zeros, got), decode_error);
  }
}

// Every byte of a note altered, and notes cut off: read, or refused, and nothing else.
TEST(lending_note, altered_bytes_do_no_harm) {
  std::mt19937_64 random(7);
  auto whole = frame_with("an envelope", 1024);
  append_note(whole, some_entries, 3, false);
  note got;
  std::size_t refused = 0;
  for (int i = 0; i < 200'000; ++i) {
    frame f(whole.bytes());
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      f.data()[random() % f.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) f.resize(random() % f.size());
    try {
      take_note(f, got);
      EXPECT_LE(f.size(), whole.size());
      for (const auto& entry : got.entries)
        if (entry.kind <= entry_kind::give_back || entry.kind == entry_kind::pass ||
            entry.kind >= entry_kind::hand) {
          EXPECT_LT(entry.index, got.payloads);
        }
    } catch (const decode_error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 50'000u);
}

}  // namespace
}  // namespace troupe::transport::lending
