#include "troupe/transport/lending/lending_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/lending/lending_note.hpp"
#include "troupe/transport/loopback/loopback.hpp"

namespace troupe::transport::lending {
namespace {

using test::has_pattern;
using test::pattern;
using test::patterned_frame;
using test::run_until;
using namespace std::chrono_literals;

// A transport whose next sends fail, or whose peers are not told of at first.
struct failing final : transport {
  explicit failing(std::unique_ptr<transport> to) : inner(std::move(to)) {}
  std::unique_ptr<transport> inner;
  int failures = 0;
  std::function<void()> before_adding = [] {};

  std::vector<std::byte> address() const override { return inner->address(); }
  void add_peer(rank_t peer, std::span<const std::byte> address) override {
    before_adding();
    inner->add_peer(peer, address);
  }
  bool send(rank_t peer, std::uint64_t order, frame&& envelope,
            std::vector<outgoing_payload>&& payloads) override {
    if (failures > 0) {
      --failures;
      throw std::bad_alloc();
    }
    return inner->send(peer, order, std::move(envelope), std::move(payloads));
  }
  unsigned progress() override { return inner->progress(); }
  int event_fd() const override { return inner->event_fd(); }
  bool arm() override { return inner->arm(); }
  void wake() override { inner->wake(); }
  bool idle() const override { return inner->idle(); }
  void close_peer(rank_t peer, bool force) override { inner->close_peer(peer, force); }
  std::vector<route> routes() const override { return inner->routes(); }
  counters count() const override { return inner->count(); }
};

// A node with an arena of its own, as if it were a process of its own.
struct lender : test::node {
  std::unique_ptr<arena> memory;

  // Bytes in the arena. `freeze` keeps them, as a tensor's storage would be kept.
  outgoing_payload payload(std::size_t size, std::uint64_t seed) const {
    auto block = memory->allocate(size);
    auto* const bytes = static_cast<std::byte*>(block.get());
    for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern(seed, i);
    outgoing_payload out;
    out.data = bytes;
    out.size = size;
    out.keep = std::make_shared<c10::DataPtr>(std::move(block));
    out.freeze = [](const outgoing_payload& p) { return p.keep; };
    return out;
  }
  bool holds(const void* data) const { return memory->owns(data); }
  std::size_t in_use() const { return memory->count().in_use; }
};

struct lending_test : testing::Test {
  lending_test() {
    begin(a, 0);
    begin(b, 1);
    meet();
  }

  void begin(lender& n, rank_t rank) {
    std::string why_not;
    arena_options of_test;
    of_test.limit = std::size_t{256} << 20;
    of_test.housekeeping = false;
    if (!n.memory) n.memory = arena::make(of_test, why_not);
    ASSERT_TRUE(n.memory) << why_not;
    lending_options options;
    options.rank = rank;
    options.secret = secret;
    options.memory = n.memory.get();
    options.most_lent = most_lent;
    n.net = make_lending_transport(
        options,
        [&](sink& to, payload_pool& pool) {
          inner_sinks[rank] = &to;
          auto made = std::make_unique<failing>(make_loopback_transport(network, rank, to, pool));
          inner[rank] = made.get();
          return made;
        },
        n.received, n.pool);
  }

  void meet() {
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
    // Until both have heard that their memory is mapped.
    ASSERT_TRUE(run([&] { return lends(a) && lends(b); }));
  }

  static bool lends(lender& n) {
    const auto all = n->routes();
    return all.size() == 1 && all[0].lanes.find("lent") != std::string::npos;
  }

  template <class Done>
  bool run(Done done) {
    return run_until(done, 30s, a, b);
  }

  incoming_message next(lender& n) {
    EXPECT_TRUE(run([&] { return !n.received.messages.empty(); }));
    if (n.received.messages.empty()) return {};
    auto out = std::move(n.received.messages.front());
    n.received.messages.erase(n.received.messages.begin());
    return out;
  }

  void send(lender& from, rank_t to, outgoing_payload&& payload, std::uint64_t order = 0) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(std::move(payload));
    from->send(to, order, patterned_frame(40, 1), std::move(payloads));
  }

  job_secret secret;
  std::uint64_t most_lent = 0;
  std::shared_ptr<loopback_network> network = std::make_shared<loopback_network>();
  std::array<sink*, 2> inner_sinks{};
  std::array<failing*, 2> inner{};
  lender a;
  lender b;
};

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

TEST_F(lending_test, foreign_memory_is_copied_once_and_lent) {
  send(a, 1, test::patterned_payload(100'000, 5));
  auto got = next(b);
  EXPECT_TRUE(got.payloads[0].read_only);
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 100'000, 5));
  send(a, 1, test::patterned_payload(60'000, 5));  // cheaper to send
  got = next(b);
  EXPECT_FALSE(got.payloads[0].read_only);
  EXPECT_TRUE(run([&] { return a.in_use() == 0; }));
}

TEST_F(lending_test, a_payload_that_cannot_be_frozen_is_copied_and_lent) {
  auto p = a.payload(1 << 20, 5);
  p.freeze = [](const outgoing_payload&) { return std::shared_ptr<const void>(); };
  const auto keep = p.keep;
  auto* const place = const_cast<std::byte*>(p.data);
  send(a, 1, std::move(p));
  std::memset(place, 0, 1 << 20);
  auto got = next(b);
  EXPECT_TRUE(got.payloads[0].read_only);
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

// How many regions of others this process has mapped.
std::size_t mapped() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find(" r--s ") != line.npos && line.find("memfd:") != line.npos;
  return count;
}

TEST_F(lending_test, the_region_of_a_peer_that_is_lost_is_unmapped) {
  const auto before = mapped();
  send(b, 0, b.payload(1 << 20, 3));
  auto got = next(a);
  b.net.reset();
  EXPECT_TRUE(run_until([&] { return !a.received.lost.empty(); }, 30s, a));
  EXPECT_EQ(mapped(), before - 1);  // a's, which b had mapped
  EXPECT_TRUE(has_pattern(got.payloads[0].data.get(), 1 << 20, 3));
  got = {};
  EXPECT_EQ(mapped(), before - 2);
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
  ASSERT_EQ(ways.size(), 4u);
  EXPECT_EQ(ways[1].way, "lent where it lies");
  EXPECT_TRUE(a->ways_to(7).empty());
  a->close_peer(1, true);
  EXPECT_FALSE(a->would_lend(1, in_arena.data, in_arena.size, 0));
}

// What a member of the job that misbehaves may write into its notes: it is cut off, by name, and
// nothing outside its region is read.
struct hostile_note_test : lending_test, testing::WithParamInterface<int> {};
INSTANTIATE_TEST_SUITE_P(each, hostile_note_test, testing::Range(0, 9));

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
                            {entry_kind::lend, 1, 1, 0, 64}};
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

// Both send, keep, send back and drop at random, over messages that overtake each other; then
// nothing is in use.
TEST_F(lending_test, nothing_leaks_whatever_happens) {
  struct held {
    std::shared_ptr<std::byte> data;
    std::size_t size;
    std::uint64_t seed;
  };
  std::mt19937_64 random(11);
  std::array<std::vector<held>, 2> keeps;
  std::array<lender*, 2> nodes = {&a, &b};
  std::uint64_t seed = 0;
  std::size_t checked = 0;
  const auto take = [&](std::size_t who) {
    for (auto& m : nodes[who]->received.messages) {
      const auto* const of = reinterpret_cast<const std::uint64_t*>(m.envelope.data());
      for (std::size_t i = 0; i < m.payloads.size(); ++i) {
        auto& p = m.payloads[i];
        ASSERT_TRUE(has_pattern(p.data.get(), std::min<std::size_t>(p.size, 256), of[i]));
        ASSERT_EQ(p.data.get()[p.size - 1], pattern(of[i], p.size - 1));
        ++checked;
        if (random() % 2) keeps[who].push_back({std::move(p.data), p.size, of[i]});
      }
    }
    nodes[who]->received.messages.clear();
  };
  for (int step = 0; step < 20'000; ++step) {
    const auto who = random() % 2;
    auto& mine = keeps[who];
    std::vector<outgoing_payload> payloads;
    frame envelope(8 * 8);
    envelope.resize(8 * 8);
    auto* const seeds = reinterpret_cast<std::uint64_t*>(envelope.data());
    const auto count = random() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      if (!mine.empty() && random() % 2) {
        const auto& one = mine[random() % mine.size()];
        outgoing_payload back;
        back.data = one.data.get();
        back.size = random() % 4 ? one.size : std::max<std::size_t>(one.size / 2, 1);
        back.keep = one.data;
        seeds[i] = one.seed;
        payloads.push_back(std::move(back));
      } else {
        const std::size_t size =
            random() % 3 == 0 ? 1 + random() % 1000 : 16'384 + random() % 30'000;
        seeds[i] = ++seed;
        payloads.push_back(nodes[who]->payload(size, seed));
      }
    }
    (*nodes[who])
        ->send(static_cast<rank_t>(1 - who), random() % 3, std::move(envelope),
               std::move(payloads));
    while (!mine.empty() && random() % 2) {
      std::swap(mine[random() % mine.size()], mine.back());
      mine.pop_back();
    }
    if (random() % 2) {
      (*nodes[1 - who])->progress();
      take(1 - who);
    }
    if (HasFatalFailure()) return;
  }
  ASSERT_TRUE(run([&] {
    for (std::size_t who = 0; who < 2; ++who) take(who), keeps[who].clear();
    return a.in_use() == 0 && b.in_use() == 0;
  }));
  EXPECT_GT(checked, 10'000u);
}

}  // namespace
}  // namespace troupe::transport::lending
