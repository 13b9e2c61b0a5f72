#include "troupe/transport/delivery/reassembly.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {
namespace {

frame numbered(std::uint64_t n) { return frame(std::as_bytes(std::span(&n, 1))); }

std::uint64_t number(const frame& f) {
  std::uint64_t n = 0;
  std::memcpy(&n, f.data(), sizeof n);
  return n;
}

incoming_payload payload_of(std::uint64_t tag) {
  incoming_payload p;
  p.size = tag;
  return p;
}

TEST(reassembly, releases_whole_messages_at_once) {
  reassembly a(3);
  std::vector<incoming_message> out;
  for (std::uint64_t i = 0; i < 10; ++i) a.envelope(i, i % 3, 0, numbered(i), out);
  ASSERT_EQ(out.size(), 10u);
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(number(out[i].envelope), i);
    EXPECT_EQ(out[i].from, 3u);
  }
  EXPECT_EQ(a.incomplete(), 0u);
}

TEST(reassembly, holds_back_only_the_same_order) {
  reassembly a(0);
  std::vector<incoming_message> out;
  a.envelope(0, 7, 1, numbered(0), out);
  a.envelope(1, 7, 0, numbered(1), out);
  a.envelope(2, 8, 0, numbered(2), out);
  a.envelope(3, 0, 0, numbered(3), out);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(number(out[0].envelope), 2u);
  EXPECT_EQ(number(out[1].envelope), 3u);
  a.payload(0, 0, payload_of(5), out);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(number(out[2].envelope), 0u);
  EXPECT_EQ(out[2].payloads.at(0).size, 5u);
  EXPECT_EQ(number(out[3].envelope), 1u);
}

TEST(reassembly, waits_for_missing_envelopes) {
  reassembly a(0);
  std::vector<incoming_message> out;
  a.envelope(1, 0, 0, numbered(1), out);
  a.payload(2, 1, payload_of(1), out);
  a.envelope(3, 1, 0, numbered(3), out);
  EXPECT_TRUE(out.empty());
  a.envelope(0, 0, 0, numbered(0), out);
  ASSERT_EQ(out.size(), 2u);
  a.envelope(2, 1, 2, numbered(2), out);
  EXPECT_EQ(out.size(), 2u);
  a.payload(2, 0, payload_of(0), out);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(number(out[2].envelope), 2u);
  EXPECT_EQ(number(out[3].envelope), 3u);
}

TEST(reassembly, expects_the_first_message_that_is_not_whole) {
  reassembly a(0);
  std::vector<incoming_message> out;
  EXPECT_EQ(a.expected(), 0u);
  a.envelope(0, 0, 0, numbered(0), out);
  a.envelope(1, 7, 2, numbered(1), out);
  a.envelope(2, 0, 0, numbered(2), out);
  a.envelope(3, 7, 0, numbered(3), out);
  a.envelope(5, 0, 0, numbered(5), out);
  EXPECT_EQ(a.expected(), 1u);
  a.payload(1, 0, payload_of(0), out);
  a.payload(1, 0, payload_of(0), out);
  EXPECT_EQ(a.expected(), 1u);
  a.payload(1, 1, payload_of(0), out);
  EXPECT_EQ(a.expected(), 4u);  // 5 is here, 4 is not
  a.envelope(4, 0, 0, numbered(4), out);
  EXPECT_EQ(a.expected(), 6u);
  EXPECT_EQ(out.size(), 6u);
}

TEST(reassembly, refuses_numbers_that_make_no_sense) {
  std::vector<incoming_message> out;
  reassembly a(0);
  EXPECT_THROW(a.envelope(reassembly::window, 0, 0, numbered(0), out), decode_error);
  EXPECT_THROW(a.payload(reassembly::window, 0, payload_of(0), out), decode_error);
  EXPECT_THROW(a.envelope(0, 0, max_payloads + 1, numbered(0), out), decode_error);
  EXPECT_THROW(a.payload(0, max_payloads, payload_of(0), out), decode_error);
  a.envelope(0, 0, 2, numbered(0), out);
  EXPECT_THROW(a.payload(0, 2, payload_of(0), out), decode_error);
  a.payload(1, 3, payload_of(0), out);
  EXPECT_THROW(a.envelope(1, 0, 3, numbered(1), out), decode_error);
  EXPECT_TRUE(out.empty());
}

// Bytes of the heap that are in use; 0 where a sanitizer keeps it.
std::size_t heap_in_use() {
  const auto heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

TEST(reassembly, takes_no_memory_for_payloads_that_are_only_announced) {
  reassembly a(0);
  std::vector<incoming_message> out;
  const auto before = heap_in_use();
  for (std::uint64_t i = 1; i <= 500; ++i) {
    a.envelope(2 * i, 0, max_payloads, numbered(i), out);
    a.payload(2 * i + 1, max_payloads - 1, payload_of(i), out);
  }
  EXPECT_LT(heap_in_use() - before, 500 * (frame::small_capacity + 1024));
  EXPECT_EQ(a.incomplete(), 1000u);
}

// What the rules ask for, worked out afresh from everything that has arrived.
struct reference {
  struct message {
    std::uint64_t order;
    std::size_t payloads;
    bool envelope = false;
    std::set<std::size_t> here;
  };
  std::vector<message> messages;

  std::set<std::uint64_t> released() const {
    std::set<std::uint64_t> result;
    std::set<std::uint64_t> blocked;
    for (std::uint64_t i = 0; i < messages.size() && messages[i].envelope; ++i) {
      const message& m = messages[i];
      const bool complete = m.here.size() == m.payloads;
      if (complete && (m.order == 0 || !blocked.contains(m.order)))
        result.insert(i);
      else
        blocked.insert(m.order);
    }
    return result;
  }
};

struct arrival {
  std::uint64_t sequence;
  int payload;  // -1: the envelope
};

void play_at_random(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  reference rules;
  std::vector<arrival> arrivals;
  const std::size_t count = 1 + below(40);
  const std::size_t orders = 1 + below(4);
  for (std::uint64_t i = 0; i < count; ++i) {
    rules.messages.push_back({below(orders), below(3) == 0 ? below(4) : 0, false, {}});
    arrivals.push_back({i, -1});
    for (std::size_t p = 0; p < rules.messages[i].payloads; ++p)
      arrivals.push_back({i, static_cast<int>(p)});
  }
  // Nearly in order, or not at all, with some repeated.
  const std::size_t spread = 1 + below(arrivals.size());
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    std::swap(arrivals[i], arrivals[std::min(arrivals.size() - 1, i + below(spread))]);
  for (std::size_t i = below(10); i > 0; --i)
    arrivals.insert(arrivals.begin() + static_cast<std::ptrdiff_t>(below(arrivals.size())),
                    arrivals[below(arrivals.size())]);

  reassembly a(1);
  std::vector<incoming_message> out;
  std::set<std::uint64_t> seen;
  std::map<std::uint64_t, std::uint64_t> last;  // of each order
  for (const arrival& now : arrivals) {
    auto& m = rules.messages[now.sequence];
    out.clear();
    if (now.payload < 0) {
      m.envelope = true;
      a.envelope(now.sequence, m.order, m.payloads, numbered(now.sequence), out);
    } else {
      const auto index = static_cast<std::size_t>(now.payload);
      m.here.insert(index);
      a.payload(now.sequence, index, payload_of(now.sequence * 10 + index), out);
    }
    for (const auto& message : out) {
      const auto n = number(message.envelope);
      ASSERT_TRUE(seen.insert(n).second) << "message " << n << " came twice";
      const auto& sent = rules.messages[n];
      ASSERT_EQ(message.payloads.size(), sent.payloads);
      for (std::size_t p = 0; p < sent.payloads; ++p)
        EXPECT_EQ(message.payloads[p].size, n * 10 + p);
      if (sent.order == 0) continue;
      const auto before = last.find(sent.order);
      if (before != last.end()) {
        EXPECT_LT(before->second, n);
      }
      last[sent.order] = n;
    }
    ASSERT_EQ(seen, rules.released());
  }
  EXPECT_EQ(seen.size(), count);
  EXPECT_EQ(a.incomplete(), 0u);
}

TEST(reassembly, agrees_with_the_rules_at_random) {
  for (unsigned seed = 0; seed < 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    play_at_random(seed);
  }
}

}  // namespace
}  // namespace troupe::transport
