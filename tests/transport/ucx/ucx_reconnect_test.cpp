// TCP connections that break under the UCX transport: nothing is lost, doubled or out of order.

#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "tests/transport/ucx/ucx_sockets.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

struct label {
  std::uint64_t order;
  std::uint64_t number;  // of its order
};

frame frame_of(const label& l) { return frame(std::as_bytes(std::span(&l, 1))); }

// What one node has been sent, checked as it arrives.
class inbox_check {
public:
  void take(std::vector<incoming_message>& messages) {
    for (const auto& m : messages) {
      label l;
      ASSERT_EQ(m.envelope.size(), sizeof l);
      std::memcpy(&l, m.envelope.data(), sizeof l);
      if (l.order == 0)
        EXPECT_TRUE(loose_.emplace(l.number, true).second) << "doubled: " << l.number;
      else
        EXPECT_EQ(next_[l.order]++, l.number) << "order " << l.order;
      for (const auto& p : m.payloads)
        EXPECT_TRUE(has_pattern(p.data.get(), p.size, l.number)) << l.number;
      ++seen_;
    }
    messages.clear();
  }

  std::size_t seen() const { return seen_; }

private:
  std::size_t seen_ = 0;
  std::map<std::uint64_t, std::uint64_t> next_;
  std::map<std::uint64_t, bool> loose_;
};

// Sends messages of several orders, some with payloads of every way there is over TCP.
class source {
public:
  explicit source(unsigned seed) : random_(seed) {}

  void send(node& from, rank_t to) {
    const std::uint64_t order = random_() % 4;
    const label l{order, next_[order]++};
    std::vector<outgoing_payload> payloads;
    const auto what = random_() % 1000;
    for (const auto& [below, size] : {std::pair{5u, 4u << 20}, {40u, 64u << 10}, {120u, 3000u}})
      if (what < below) {
        payloads.push_back(patterned_payload(size, l.number));
        break;
      }
    from->send(to, order, frame_of(l), std::move(payloads));
    ++sent_;
  }

  std::size_t sent() const { return sent_; }

private:
  std::mt19937 random_;
  std::map<std::uint64_t, std::uint64_t> next_;
  std::size_t sent_ = 0;
};

class ucx_reconnects : public testing::Test {
protected:
  static constexpr std::chrono::seconds limit{60};

  ucx_options options(rank_t rank) const {
    auto o = options_of(tested_backend::ucx_tcp, rank);
    o.tcp_limit = tcp_limit;
    return o;
  }

  void start(std::chrono::milliseconds longest = 20s) {
    tcp_limit = longest;
    for (const auto& [n, rank] : {std::pair{&a, 0u}, std::pair{&b, 1u}})
      n->net = make_ucx_transport(options(rank), n->received, n->pool);
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
    exchange_one();
  }

  void exchange_one() {
    a->send(1, 0, patterned_frame(8, 1));
    b->send(0, 0, patterned_frame(8, 1));
    ASSERT_TRUE(run([&] { return !a.received.messages.empty() && !b.received.messages.empty(); }));
    ASSERT_EQ(a.received.messages.size(), 1u);
    a.received.messages.clear();
    b.received.messages.clear();
  }

  template <class Done>
  bool run(Done done, std::chrono::milliseconds within = limit) {
    return run_until(done, within, a, b);
  }

  void expect_no_loss() {
    for (const node* n : {&a, &b})
      for (const auto& [peer, why] : n->received.lost) ADD_FAILURE() << peer << ": " << why.text;
  }

  std::chrono::milliseconds tcp_limit{};
  node a;
  node b;
};

TEST_F(ucx_reconnects, while_nothing_happens) {
  start();
  for (int i = 0; i < 20; ++i) {
    ASSERT_GT(break_tcp_connections(), 0u);
    exchange_one();
    expect_no_loss();
  }
}

TEST_F(ucx_reconnects, fifty_times_while_messages_flow_both_ways) {
  start();
  std::mt19937 random(1);
  source from_a(2);
  source from_b(3);
  inbox_check at_a;
  inbox_check at_b;
  const auto take = [&] {
    at_a.take(a.received.messages);
    at_b.take(b.received.messages);
  };
  std::size_t broken = 0;
  for (int breaks = 0; breaks < 50 || (broken <= 25 && breaks < 1000); ++breaks) {
    for (auto i = random() % 200; i > 0; --i) {
      from_a.send(a, 1);
      from_b.send(b, 0);
      for (auto polls = random() % 8; polls > 0; --polls) {
        a->progress();
        b->progress();
      }
      take();
    }
    broken += break_tcp_connections() > 0;
    // Now and then it is whole again before the next one, now and then not.
    for (auto polls = random() % 3000; polls > 0; --polls) {
      a->progress();
      b->progress();
    }
    if (random() % 3 == 0) run([&] { return a->idle() && b->idle(); });
    take();
    expect_no_loss();
    if (HasFailure()) return;
  }
  EXPECT_GT(broken, 25u);
  EXPECT_TRUE(run([&] {
    take();
    return (at_a.seen() == from_b.sent() && at_b.seen() == from_a.sent()) ||
           !a.received.lost.empty() || !b.received.lost.empty();
  }));
  expect_no_loss();
  EXPECT_EQ(at_a.seen(), from_b.sent());
  EXPECT_EQ(at_b.seen(), from_a.sent());
  EXPECT_GT(from_a.sent(), 3000u);
  EXPECT_TRUE(run([&] { return a->idle() && b->idle(); }));
  a.net.reset();
  b.net.reset();
  EXPECT_EQ(a.pool.out(), 0);
  EXPECT_EQ(b.pool.out(), 0);
}

// What a peer has is let go, also when nothing is sent back.
TEST_F(ucx_reconnects, what_is_acknowledged_is_not_kept) {
  start();
  const auto bytes = std::make_shared<std::vector<std::byte>>(100'000);
  for (int i = 0; i < 1000; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
    ASSERT_TRUE(run([&] { return bytes.use_count() < 100; }));
  }
  EXPECT_TRUE(run([&] { return bytes.use_count() == 1; }));
  // A receiver that goes to sleep at once acknowledges as well.
  std::vector<outgoing_payload> payloads;
  payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
  const auto before = b.received.messages.size();
  a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  ASSERT_TRUE(run([&] { return b.received.messages.size() > before; }));
  while (!b->arm()) b->progress();
  EXPECT_TRUE(run_until([&] { return bytes.use_count() == 1; }, limit, a));
}

// Each node driven by a thread that sleeps when it can, and fed by two others.
TEST_F(ucx_reconnects, under_threads_that_sleep) {
  start();
  constexpr std::size_t each = 3000;
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> seen{0};
  const auto drive = [&](node& n) {
    inbox_check check;
    while (!stop) {
      const auto before = check.seen();
      if (n->progress() == 0 && n->arm()) {
        pollfd p{n->event_fd(), POLLIN, 0};
        poll(&p, 1, 1000);
      }
      check.take(n.received.messages);
      seen += check.seen() - before;
    }
  };
  std::jthread at_a([&] { drive(a); });
  std::jthread at_b([&] { drive(b); });
  {
    std::vector<std::jthread> senders;
    for (std::uint64_t t = 1; t <= 4; ++t)
      senders.emplace_back([&, t] {
        node& from = t % 2 ? a : b;
        for (std::uint64_t i = 0; i < each; ++i) {
          std::vector<outgoing_payload> payloads;
          if (i % 100 == t) payloads.push_back(patterned_payload(i % 3 ? 70'000 : 2'000'000, i));
          from->send(t % 2, t, frame_of({t, i}), std::move(payloads));
          if (i % 64 == 0) std::this_thread::yield();
        }
      });
    std::mt19937 random(5);
    for (int i = 0; i < 20; ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
      break_tcp_connections();
    }
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  while (seen < 4 * each && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(seen, 4 * each);
  stop = true;
  a->wake();
  b->wake();
  at_a.join();
  at_b.join();
  expect_no_loss();
}

// The other side is notified, though the connection broke while it was being closed.
TEST_F(ucx_reconnects, to_send_a_leave_notice) {
  start();
  a->send(1, 0, patterned_frame(8, 1), {});
  break_tcp_connections();
  a->progress();
  a->close_peer(1, false);
  EXPECT_THROW(a->send(1, 0, patterned_frame(8, 1)), peer_lost);
  ASSERT_TRUE(run([&] { return !b.received.lost.empty(); }));
  EXPECT_EQ(b.received.lost[0].second.kind, loss_kind::left);
  EXPECT_EQ(b.received.messages.size(), 1u);
  run([] { return false; }, 100ms);
  EXPECT_EQ(b.received.lost.size(), 1u);
  EXPECT_TRUE(a.received.lost.empty());
  EXPECT_TRUE(a->idle());
}

TEST_F(ucx_reconnects, not_after_a_forced_close) {
  start(2s);
  break_tcp_connections();
  a->progress();
  a->close_peer(1, true);
  ASSERT_TRUE(run([&] { return !b.received.lost.empty(); }));
  run([] { return false; }, 100ms);
  EXPECT_EQ(b.received.lost.size(), 1u);
  EXPECT_TRUE(a.received.lost.empty());
}

TEST_F(ucx_reconnects, destruction_in_the_middle_lets_all_go) {
  start(2s);
  const auto bytes = std::make_shared<std::vector<std::byte>>(4 << 20);
  for (int i = 0; i < 20; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  run([&] { return b.received.messages.size() > 3; });
  break_tcp_connections();
  a->progress();
  a.net.reset();
  EXPECT_EQ(bytes.use_count(), 1);
  ASSERT_TRUE(run_until([&] { return !b.received.lost.empty(); }, limit, b));
  EXPECT_EQ(b.received.lost.size(), 1u);
  b.received.messages.clear();
  b.net.reset();
  EXPECT_EQ(b.pool.out(), 0);
}

// A node whose peer does not answer any more gives it up, once, and reports for how long.
TEST_F(ucx_reconnects, no_longer_than_the_limit) {
  start(1s);
  const auto bytes = std::make_shared<std::vector<std::byte>>(100);
  std::vector<outgoing_payload> payloads;
  payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
  const auto begin = std::chrono::steady_clock::now();
  break_tcp_connections();
  a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  // `b` makes no progress, as if it hung.
  ASSERT_TRUE(run_until([&] { return !a.received.lost.empty(); }, limit, a));
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 100ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_EQ(a.received.lost[0].second.kind, loss_kind::broken);
  EXPECT_NE(a.received.lost[0].second.text.find("not reachable for "), std::string::npos)
      << a.received.lost[0].second.text;
  EXPECT_THROW(a->send(1, 0, patterned_frame(8, 1)), peer_lost);
  EXPECT_TRUE(run_until([&] { return a->idle() && bytes.use_count() == 1; }, limit, a));
  ASSERT_TRUE(run([&] { return !b.received.lost.empty(); }));
  run([] { return false; }, 100ms);
  EXPECT_EQ(a.received.lost.size(), 1u);
  EXPECT_EQ(b.received.lost.size(), 1u);
}

}  // namespace
}  // namespace troupe::transport::test
