// What every transport does with messages; conformance_events_test.cpp is about everything else.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

class messages_over : public pair_test {};
INSTANTIATE_TEST_SUITE_P(each, messages_over, all_backends(), backend_name);

std::vector<outgoing_payload> one_payload(std::size_t size, std::uint64_t seed) {
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(size, seed));
  return payloads;
}

// Sizes around every threshold of UCX and of ours.
const std::vector<std::size_t> sizes = {0,     1,     8,      60,     61,      92,      93,
                                        1024,  8191,  8192,   8193,   16383,   16384,   16385,
                                        65536, 65537, 262143, 262144, 1 << 20, 4 << 20, 64 << 20};

TEST_P(messages_over, envelopes_of_every_size_arrive) {
  for (const std::size_t size : sizes) {
    if (size > 65537) break;
    SCOPED_TRACE(size);
    a->net->send(1, 0, patterned_frame(size, size));
    ASSERT_TRUE(run([&] { return !b->received.messages.empty(); }));
    const auto message = std::move(b->received.messages.front());
    b->received.messages.clear();
    EXPECT_EQ(message.from, 0u);
    EXPECT_TRUE(message.payloads.empty());
    ASSERT_EQ(message.envelope.size(), size);
    EXPECT_TRUE(has_pattern(message.envelope.data(), size, size));
  }
}

TEST_P(messages_over, payloads_of_every_size_arrive) {
  for (const std::size_t size : sizes) {
    SCOPED_TRACE(size);
    a->net->send(1, 0, patterned_frame(40, 1), one_payload(size, size));
    ASSERT_TRUE(run([&] { return !b->received.messages.empty() && a->net->idle(); }));
    const auto message = std::move(b->received.messages.front());
    b->received.messages.clear();
    EXPECT_TRUE(has_pattern(message.envelope.data(), 40, 1));
    ASSERT_EQ(message.payloads.size(), 1u);
    ASSERT_EQ(message.payloads[0].size, size);
    EXPECT_TRUE(has_pattern(message.payloads[0].data.get(), size, size));
  }
  EXPECT_EQ(b->pool.out(), 0);
}

TEST_P(messages_over, many_payloads_of_one_message_arrive) {
  std::vector<outgoing_payload> payloads;
  for (std::size_t i = 0; i < 200; ++i) payloads.push_back(patterned_payload(i % 7 * i * 300, i));
  a->net->send(1, 3, patterned_frame(500, 2), std::move(payloads));
  ASSERT_TRUE(run([&] { return !b->received.messages.empty(); }));
  const auto& message = b->received.messages.front();
  ASSERT_EQ(message.payloads.size(), 200u);
  for (std::size_t i = 0; i < 200; ++i) {
    ASSERT_EQ(message.payloads[i].size, i % 7 * i * 300);
    EXPECT_TRUE(has_pattern(message.payloads[i].data.get(), message.payloads[i].size, i));
  }
}

TEST_P(messages_over, too_many_payloads_are_refused) {
  std::vector<outgoing_payload> payloads(100'000);
  EXPECT_THROW(a->net->send(1, 0, patterned_frame(1, 1), std::move(payloads)), invalid_argument);
  a->net->send(1, 0, patterned_frame(1, 1));
  EXPECT_TRUE(run([&] { return !b->received.messages.empty(); }));
}

struct numbers {
  std::uint64_t order;
  std::uint64_t number;
};

frame frame_of(numbers n) { return frame(std::as_bytes(std::span(&n, 1))); }

numbers read(const frame& f) {
  numbers n;
  std::memcpy(&n, f.data(), sizeof n);
  return n;
}

// Checks that each order's numbers go up by one.
class order_check {
public:
  void take(const std::vector<incoming_message>& messages) {
    for (const auto& m : messages) {
      const numbers n = read(m.envelope);
      ++seen_;
      if (n.order == 0)
        EXPECT_TRUE(loose_.insert({n.number, true}).second);
      else
        EXPECT_EQ(next_[n.order]++, n.number) << "order " << n.order;
    }
  }
  std::size_t seen() const { return seen_; }

private:
  std::size_t seen_ = 0;
  std::map<std::uint64_t, std::uint64_t> next_;
  std::map<std::uint64_t, bool> loose_;
};

TEST_P(messages_over, messages_of_one_order_keep_it) {
  std::mt19937 random(1);
  std::map<std::uint64_t, std::uint64_t> next;
  for (int i = 0; i < 400; ++i) {
    const std::uint64_t order = random() % 5;
    std::vector<outgoing_payload> payloads;
    if (random() % 3 == 0) {
      const std::size_t choice[] = {100, 5000, 20'000, 300'000};
      payloads = one_payload(choice[random() % 4], 1);
    }
    a->net->send(1, order, frame_of({order, next[order]++}), std::move(payloads));
  }
  ASSERT_TRUE(run([&] { return b->received.messages.size() == 400; }));
  order_check check;
  check.take(b->received.messages);
}

TEST_P(messages_over, a_large_payload_delays_only_its_own_order) {
  a->net->send(1, 5, frame_of({5, 0}), one_payload(64 << 20, 1));
  a->net->send(1, 5, frame_of({5, 1}));
  a->net->send(1, 6, frame_of({6, 0}));
  a->net->send(1, 0, frame_of({0, 0}));
  ASSERT_TRUE(run([&] { return b->received.messages.size() == 4; }));
  std::vector<std::uint64_t> orders;
  for (const auto& m : b->received.messages) orders.push_back(read(m.envelope).order);
  order_check check;
  check.take(b->received.messages);
  // Nothing takes time on the loopback network, nor where a payload is lent: nothing is overtaken.
  if (GetParam() != tested_backend::loopback && GetParam() != tested_backend::lending) {
    EXPECT_EQ(orders, (std::vector<std::uint64_t>{6, 0, 5, 5}));
  }
}

// A node with a thread of its own that polls it and counts what it receives.
class driven {
public:
  explicit driven(node& n) : node_(n), thread_([this](std::stop_token s) { loop(s); }) {}

  std::size_t seen() const { return seen_.load(); }
  void stop() {
    thread_.request_stop();
    thread_.join();
  }

private:
  void loop(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (node_->progress() == 0) std::this_thread::yield();
      check_.take(node_.received.messages);
      node_.received.messages.clear();
      seen_.store(check_.seen());
    }
  }

  node& node_;
  order_check check_;
  std::atomic<std::size_t> seen_{0};
  std::jthread thread_;
};

bool wait_for(const auto& done, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return done();
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

TEST_P(messages_over, floods_in_both_directions_pass) {
  driven at_a(*a);
  driven at_b(*b);
  constexpr std::size_t count = 20'000;
  const auto flood = [&](node& from, rank_t to) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t order = i % 2;
      from->send(to, order, frame_of({order, i / 2}),
                 i % 500 == 0 ? one_payload(256 << 10, i) : std::vector<outgoing_payload>{});
    }
  };
  {
    const std::jthread one([&] { flood(*a, 1); });
    const std::jthread other([&] { flood(*b, 0); });
  }
  EXPECT_TRUE(wait_for([&] { return at_a.seen() == count && at_b.seen() == count; }, limit))
      << at_a.seen() << " and " << at_b.seen();
  EXPECT_TRUE(wait_for([&] { return a->net->idle() && b->net->idle(); }, limit));
  at_a.stop();
  at_b.stop();
}

TEST_P(messages_over, many_threads_send_at_once) {
  driven at_a(*a);
  driven at_b(*b);
  constexpr std::size_t threads = 8;
  constexpr std::size_t each = 2000;
  {
    std::vector<std::jthread> senders;
    for (std::uint64_t t = 1; t <= threads; ++t)
      senders.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < each; ++i)
          a->net->send(1, t, frame_of({t, i}),
                       i % 100 == t ? one_payload(50'000, i) : std::vector<outgoing_payload>{});
      });
  }
  EXPECT_TRUE(wait_for([&] { return at_b.seen() == threads * each; }, limit)) << at_b.seen();
  at_a.stop();
  at_b.stop();
}

TEST_P(messages_over, what_arrives_early_waits_for_add_peer) {
  auto c = made.make(2);
  c->net->add_peer(0, a->net->address());
  c->net->send(0, 1, frame_of({1, 0}), one_payload(100'000, 4));
  c->net->send(0, 1, frame_of({1, 1}));
  // Nothing can be waited for that should not come: give it a chance by way of other traffic.
  for (int i = 0; i < 100; ++i) {
    b->net->send(0, 0, frame_of({0, 0}));
    ASSERT_TRUE(run_until([&] { return !a->received.messages.empty(); }, limit, *a, *b, *c));
    EXPECT_EQ(a->received.messages.front().from, 1u);
    a->received.messages.clear();
  }
  a->net->add_peer(2, c->net->address());
  ASSERT_TRUE(run_until([&] { return a->received.messages.size() == 2; }, limit, *a, *c));
  order_check check;
  check.take(a->received.messages);
  EXPECT_EQ(a->net->count().strangers, 0u);
}

TEST_P(messages_over, a_node_can_be_its_own_peer) {
  a->net->add_peer(0, a->net->address());
  a->net->send(0, 1, frame_of({1, 0}), one_payload(100'000, 9));
  a->net->send(0, 1, frame_of({1, 1}));
  ASSERT_TRUE(run([&] { return a->received.messages.size() == 2; }));
  EXPECT_TRUE(has_pattern(a->received.messages[0].payloads.at(0).data.get(), 100'000, 9));
}

TEST_P(messages_over, eight_nodes_talk_to_each_other) {
  constexpr rank_t world = 8;
  job own(GetParam());
  std::vector<std::unique_ptr<node>> nodes;
  for (rank_t r = 0; r < world; ++r) nodes.push_back(own.make(r));
  for (rank_t r = 0; r < world; ++r)
    for (rank_t s = 0; s < world; ++s)
      if (r != s) nodes[r]->net->add_peer(s, nodes[s]->net->address());
  for (rank_t r = 0; r < world; ++r)
    for (rank_t s = 0; s < world; ++s)
      if (r != s)
        for (std::uint64_t i = 0; i < 10; ++i)
          nodes[r]->net->send(s, 1, frame_of({r, i}), one_payload(i * 3000, r));
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto all = [&] {
    return std::ranges::all_of(nodes,
                               [](const auto& n) { return n->received.messages.size() == 70; });
  };
  while (!all() && std::chrono::steady_clock::now() < end)
    for (auto& n : nodes) n->net->progress();
  ASSERT_TRUE(all());
  for (auto& n : nodes) {
    std::map<rank_t, std::uint64_t> next;
    for (const auto& m : n->received.messages) EXPECT_EQ(next[m.from]++, read(m.envelope).number);
    EXPECT_EQ(n->net->routes().size(), world - 1);
  }
}

TEST_P(messages_over, everything_is_counted) {
  for (int i = 0; i < 5; ++i) a->net->send(1, 0, patterned_frame(10, 1), one_payload(1000, 1));
  b->net->send(0, 0, patterned_frame(7, 1));
  ASSERT_TRUE(
      run([&] { return b->received.messages.size() == 5 && a->received.messages.size() == 1; }));
  const counters at_a = a->net->count();
  const counters at_b = b->net->count();
  EXPECT_EQ(at_a.messages_sent, 5u);
  EXPECT_EQ(at_a.bytes_sent, 5 * 1010u);
  EXPECT_EQ(at_a.messages_received, 1u);
  EXPECT_EQ(at_a.bytes_received, 7u);
  EXPECT_EQ(at_b.messages_received, 5u);
  EXPECT_EQ(at_b.bytes_received, 5 * 1010u);
  EXPECT_EQ(at_b.messages_sent, 1u);
  EXPECT_EQ(at_b.strangers, 0u);
}

}  // namespace
}  // namespace troupe::transport::test
