// Nodes that have the job's secret and break the protocol, and hellos that were recorded.
#include "tests/transport/tcp/tcp_hostile.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "tests/log_lines.hpp"
#include "troupe/transport/delivery/reassembly.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
using tcp::record_kind;

// A hello that was recorded, sent by somebody else: there is an answer, and it cannot be answered.
TEST_F(tcp_hostile, a_replayed_hello_leads_nowhere) {
  auto a = make(options_of(0)), b = make(options_of(1));
  connect(*a, *b);
  ASSERT_TRUE(exchange(*a, *b));
  const auto of_a = tcp::decode((*a)->address(), secret),
             of_b = tcp::decode((*b)->address(), secret);
  tcp::handshake recorded(secret);
  tcp::stream_claim claim;
  claim.from = 1;
  claim.to = 0;
  claim.from_id = of_b.id;
  claim.to_id = of_a.id;
  claim.protection = stream_protection::authenticate;
  const auto hello = recorded.greet(claim);
  const auto stranger = call(*a);
  ASSERT_EQ(::send(stranger.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
            ssize_t(hello.size()));
  std::array<std::byte, sizeof(tcp::handshake::challenge)> challenge;
  ASSERT_TRUE(run_until(
      [&] { return ::recv(stranger.get(), challenge.data(), challenge.size(), MSG_DONTWAIT) > 0; },
      limit, *a));
  const tcp::handshake::answer guess{};
  ::send(stranger.get(), guess.data(), guess.size(), MSG_NOSIGNAL);
  EXPECT_TRUE(is_closed(stranger, *a));
  EXPECT_TRUE(exchange(*a, *b));
  EXPECT_TRUE(a->received.lost.empty() && b->received.lost.empty());
}

// It waits for its node to be added, as a member's own does, in the place of the one before.
TEST_F(tcp_hostile, a_hello_that_is_replayed_by_many_takes_the_place_of_one) {
  auto a = make(options_of(0));
  tcp::handshake recorded(secret);
  tcp::stream_claim claim;
  claim.from = 1;
  claim.to_id = tcp::decode((*a)->address(), secret).id;
  claim.protection = stream_protection::authenticate;
  const auto hello = recorded.greet(claim);
  constexpr unsigned many = 200;
  std::vector<unique_fd> all;
  for (unsigned i = 0; i < many; ++i) {
    all.push_back(call(*a));
    ::send(all.back().get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    if (i % 8 == 7) run_until([] { return false; }, 1ms, *a);
  }
  EXPECT_TRUE(run_until([&] { return (*a)->count().strangers == many - 1; }, limit, *a));
  for (unsigned i = 0; i + 1 < many; ++i) EXPECT_TRUE(is_closed(all[i], *a));
}

// A member that is slow to answer is not driven out by connections that say nothing.
TEST_F(tcp_hostile, silent_connections_crowd_out_no_handshake) {
  auto a = make(options_of(0));
  rogue b(secret, *a);
  std::vector<unique_fd> silent;
  const auto crowd = [&] {
    for (int i = 0; i < 300; ++i) {
      silent.push_back(call(*a));
      if (i % 8 == 7) (*a)->progress();
    }
    EXPECT_TRUE(run_until([&] { return (*a)->count().strangers >= 40; }, limit, *a));
  };
  const auto stream = b.connect(tcp::stream_kind::messages, *a, crowd);
  b.send(*stream, {.kind = record_kind::resume});
  b.send(*stream, {.size = 8});
  EXPECT_TRUE(run_until([&] { return !a->received.messages.empty(); }, limit, *a));
}

// Whoever has the secret and sends nonsense is lost, with a reason; nothing else comes of it.
TEST_F(tcp_hostile, a_member_that_sends_nonsense_is_lost) {
  using tcp::record_head;
  using tcp::record_kind;
  struct nonsense {
    const char* what;
    tcp::stream_kind kind;
    std::vector<record_head> heads;
  };
  const auto head = [](record_kind kind, std::uint32_t size, std::uint32_t attached,
                       std::uint64_t order = 0, std::uint64_t expected = 0,
                       std::uint32_t count = 0) {
    return record_head{.size = size,
                       .attached = attached,
                       .sequence = 0,
                       .order = order,
                       .expected = expected,
                       .count = count,
                       .kind = kind};
  };
  constexpr auto messages = tcp::stream_kind::messages, bulk = tcp::stream_kind::bulk;
  constexpr std::uint64_t mib = 1 << 20;
  constexpr std::uint32_t chunk = tcp::largest_chunk;
  const std::vector<nonsense> all{
      {"an unknown kind", messages, {head(static_cast<record_kind>(99), 0, 0)}},
      {"a second resume", messages, {head(record_kind::resume, 0, 0)}},
      {"an acknowledgement of what was never sent",
       messages,
       {head(record_kind::acknowledgement, 0, 0, 0, 7)}},
      {"a message that acknowledges that", messages, {head(record_kind::message, 8, 0, 0, 7)}},
      {"a chunk among messages", messages, {head(record_kind::chunk, 0, chunk, mib)}},
      {"a payload of another size", messages, {head(record_kind::payload, 8, 0, 9)}},
      {"a payload with too large an index",
       messages,
       {head(record_kind::payload, 8, 0, 8, 0, 1u << 20)}},
      {"a message on a bulk stream", bulk, {head(record_kind::message, 8, 0)}},
      {"a chunk of nothing", bulk, {head(record_kind::chunk, 0, 0, mib)}},
      {"a chunk larger than any", bulk, {head(record_kind::chunk, 0, 2 * chunk, mib)}},
      {"chunks that overlap",
       bulk,
       {head(record_kind::chunk, 0, tcp::chunk_unit, mib, tcp::chunk_unit),
        head(record_kind::chunk, 0, chunk, mib)}},
      {"a chunk outside of its payload", bulk, {head(record_kind::chunk, 0, chunk, mib, mib)}},
      {"a chunk far outside", bulk, {head(record_kind::chunk, 0, chunk, mib, ~0ull - 5)}},
      {"a chunk of another size", bulk, {head(record_kind::chunk, 0, 1000, mib)}},
      {"a chunk that begins elsewhere", bulk, {head(record_kind::chunk, 0, chunk, mib, 1000)}},
      {"a chunk twice",
       bulk,
       {head(record_kind::chunk, 0, chunk, mib), head(record_kind::chunk, 0, chunk, mib)}},
      {"chunks that differ on the payload's size",
       bulk,
       {head(record_kind::chunk, 0, chunk, mib),
        head(record_kind::chunk, 0, chunk, 2 * mib, chunk)}},
      {"a resume on a bulk stream", bulk, {head(record_kind::resume, 0, 0)}},
      {"a chunk of a message far ahead",
       bulk,
       {{.attached = chunk,
         .sequence = reassembly::window,
         .order = mib,
         .kind = record_kind::chunk}}},
  };
  for (const auto& one : all) {
    SCOPED_TRACE(one.what);
    auto a = make(options_of(0));
    {
      rogue b(secret, *a);
      auto first = b.open(*a);
      auto second = one.kind == bulk ? b.connect(bulk, *a) : nullptr;
      auto& by = second ? *second : *first;
      for (const auto& h : one.heads) b.send(by, h);
      ASSERT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
      EXPECT_THAT(a->received.lost.at(0).second.text, testing::HasSubstr("malformed"));
      EXPECT_TRUE(a->received.messages.empty());
      EXPECT_EQ(a->pool.out(), 0);
    }
  }
}

// Also what has come whole, of a message that has not.
TEST_F(tcp_hostile, the_memory_of_a_lost_peer_is_freed) {
  auto a = make(options_of(0));
  rogue b(secret, *a);
  const auto messages = b.open(*a);
  const auto bulk = b.connect(tcp::stream_kind::bulk, *a);
  b.send(*messages, {.size = 8, .count = 3});
  b.send(*messages, {.size = 100, .order = 100, .kind = record_kind::payload});
  b.send(*bulk, {.attached = tcp::largest_chunk,
                 .order = 2 * tcp::largest_chunk,
                 .count = 1,
                 .kind = record_kind::chunk});
  ASSERT_TRUE(run_until([&] { return a->pool.out() == 2; }, limit, *a));
  b.send(*messages, {.kind = record_kind::leave});
  ASSERT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
  EXPECT_EQ(a->pool.out(), 0);
}

TEST_F(tcp_hostile, a_bulk_stream_of_another_connection_is_refused) {
  auto a = make(options_of(0));
  rogue b(secret, *a);
  const auto first = b.open(*a);
  const auto of_first = b.beside;
  const auto second = b.open(*a);
  const auto of_second = std::exchange(b.beside, of_first);
  EXPECT_EQ(b.connect(tcp::stream_kind::bulk, *a), nullptr);
  b.beside = of_second;
  EXPECT_NE(b.connect(tcp::stream_kind::bulk, *a), nullptr);
  EXPECT_TRUE(a->received.lost.empty());
}

TEST_F(tcp_hostile, a_member_that_makes_streams_without_end_is_lost) {
  auto a = make(options_of(0));
  rogue b(secret, *a);
  const auto messages = b.open(*a);
  std::vector<std::unique_ptr<tcp::stream>> all;
  while (a->received.lost.empty() && all.size() < 1'000) {
    all.push_back(b.connect(tcp::stream_kind::bulk, *a));
    run_until([] { return false; }, 1ms, *a);
  }
  ASSERT_FALSE(a->received.lost.empty());
  EXPECT_THAT(a->received.lost[0].second.text, testing::HasSubstr("streams for large payloads"));
  EXPECT_LE(all.size(), tcp::address::most_places + 2);
}

TEST_F(tcp_hostile, a_member_that_does_not_resume_is_lost) {
  auto options = options_of(0);
  options.limit = 1500ms;
  auto a = make(options);
  rogue b(secret, *a);
  b.open(*a);                           // and closed
  std::unique_ptr<tcp::stream> second;  // refused while the node itself calls
  while (!second && a->received.lost.empty()) second = b.connect(tcp::stream_kind::messages, *a);
  ASSERT_TRUE(second);
  (*a)->send(1, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
  EXPECT_THAT(a->received.lost[0].second.text, testing::HasSubstr("out of reach for 1500 ms"));
}

// What is sent is a copy, and the tag is that of the copy.
TEST_F(tcp_hostile, payloads_that_change_while_they_are_sent_break_no_connection) {
  for (const auto how : {stream_protection::authenticate, stream_protection::encrypt}) {
    const troupe::test::log_lines lines(spdlog::level::info);
    auto a = make(options_of(0, how)), b = make(options_of(1, how));
    connect(*a, *b);
    ASSERT_TRUE(exchange(*a, *b));
    const auto bytes = std::make_shared<std::vector<std::byte>>(4 << 20);
    std::size_t sent = 1;
    for (const std::size_t size : {1'000u, 40'000u, 60'000u, 100'000u, 4u << 20, 4u << 20})
      for (int i = 0; i < 10; ++i, ++sent)
        (*a)->send(1, 0, patterned_frame(8, 1), {{bytes->data(), size, {}, bytes}});
    unsigned turns = 0;
    const auto all_there = [&] {
      const auto part = bytes->begin() + (turns % 64) * (bytes->size() / 64);
      std::fill_n(part, bytes->size() / 64, static_cast<std::byte>(++turns));
      return b->received.messages.size() == sent;
    };
    EXPECT_TRUE(run_until(all_there, limit, *a, *b));
    EXPECT_EQ(lines.with("is restored"), 0);
  }
}

// Said to be frozen, and so sent where it lies.
outgoing_payload frozen_payload(const std::shared_ptr<std::vector<std::byte>>& bytes) {
  outgoing_payload out{bytes->data(), bytes->size(), {}, bytes};
  out.freeze = [](const outgoing_payload& p) { return p.keep; };
  return out;
}

tcp_options freezing(tcp_options options) {
  options.freezes_payloads = true;
  return options;
}

TEST_F(tcp_hostile, frozen_payloads_are_sent_where_they_lie) {
  auto a = make(freezing(options_of(0))), b = make(options_of(1));
  connect(*a, *b);
  const auto bytes = std::make_shared<std::vector<std::byte>>(4 << 20);
  for (std::size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = pattern(5, i);
  for (int i = 0; i < 10; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(frozen_payload(bytes));
    (*a)->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  EXPECT_TRUE(run_until([&] { return b->received.messages.size() == 10; }, limit, *a, *b));
  for (const auto& m : b->received.messages)
    EXPECT_TRUE(has_pattern(m.payloads.at(0).data.get(), bytes->size(), 5));
  EXPECT_TRUE(run_until([&] { return bytes.use_count() == 1; }, limit, *a, *b));
}

// By a pointer from before they were frozen, for example: the connection breaks once, and what is
// sent over the next one is a copy. Nothing is lost.
TEST_F(tcp_hostile, frozen_payloads_that_change_all_the_same_break_a_connection_once) {
  const troupe::test::log_lines lines(spdlog::level::debug);
  auto a = make(freezing(options_of(0))), b = make(options_of(1));
  connect(*a, *b);
  ASSERT_TRUE(exchange(*a, *b));
  const auto bytes = std::make_shared<std::vector<std::byte>>(4 << 20);
  std::size_t sent = 1;
  for (int i = 0; i < 30; ++i, ++sent) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(frozen_payload(bytes));
    (*a)->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  // What changes is what is under way: after each turn of the sender.
  unsigned turns = 0;
  const auto all_there = [&] {
    std::ranges::fill(*bytes, static_cast<std::byte>(++turns));
    return b->received.messages.size() == sent;
  };
  EXPECT_TRUE(run_until(all_there, limit, *a, *b));
  EXPECT_GE(lines.with("broke: a record was altered"), 1);
  EXPECT_LE(lines.with("broke: a record was altered"), 2);
  EXPECT_TRUE(a->received.lost.empty() && b->received.lost.empty());
}

}  // namespace
}  // namespace troupe::transport::test
