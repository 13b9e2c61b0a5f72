// What every transport does about sleeping, closing and loss; conformance_test.cpp is about
// messages.

#include <gtest/gtest.h>
#include <poll.h>

#include <random>
#include <thread>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

class events_over : public pair_test {};
INSTANTIATE_TEST_SUITE_P(each, events_over,
                         testing::Values(tested_backend::loopback, tested_backend::virtual_clean,
                                         tested_backend::virtual_bad, tested_backend::ucx,
                                         tested_backend::ucx_shared_memory, tested_backend::ucx_tcp,
                                         tested_backend::tcp, tested_backend::tcp_encrypted,
                                         tested_backend::composite, tested_backend::lending),
                         backend_name);

// Sleeps until something happens; false after `limit`.
bool sleep_until_event(node& n, std::chrono::milliseconds limit) {
  pollfd p{n->event_fd(), POLLIN, 0};
  return poll(&p, 1, static_cast<int>(limit.count())) == 1;
}

// Progresses and sleeps, as a network thread does, until `done`.
bool sleepy_until(node& n, const auto& done, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (n->progress() > 0 || done()) continue;
    if (!n->arm()) continue;
    if (!sleep_until_event(n, limit)) return false;
    if (std::chrono::steady_clock::now() > end) return done();
  }
  return true;
}

TEST_P(events_over, no_wake_up_is_lost) {
  constexpr int rounds = 10'000;
  const auto play = [&](node& n, rank_t other, bool serve) {
    std::mt19937 random(serve);
    for (int i = 0; i < rounds; ++i) {
      if (!serve) n->send(other, 0, patterned_frame(8, 1));
      // Now and then the message comes before, while and after this side goes to sleep.
      for (auto spin = random() % 200; spin > 0; --spin) std::atomic_signal_fence({});
      if (!sleepy_until(
              n, [&] { return !n.received.messages.empty(); }, limit))
        return i;
      n.received.messages.clear();
      if (serve) n->send(other, 0, patterned_frame(8, 1));
    }
    return rounds;
  };
  int at_b = 0;
  std::jthread serving([&] { at_b = play(*b, 0, true); });
  EXPECT_EQ(play(*a, 1, false), rounds);
  serving.join();
  EXPECT_EQ(at_b, rounds);
}

TEST_P(events_over, wake_ends_any_sleep) {
  // What there was to do while connecting is done sooner or later.
  ASSERT_TRUE(run([&] { return a->net->arm() && !sleep_until_event(*a, 20ms); }));
  a->net->wake();
  EXPECT_TRUE(sleep_until_event(*a, limit));
  a->net->progress();
  // A wake before arm makes arm fail, or the sleep end.
  a->net->wake();
  EXPECT_TRUE(!a->net->arm() || sleep_until_event(*a, limit));
  // From another thread, at any moment.
  std::atomic<int> woken{0};
  std::atomic<int> asked{0};
  std::jthread waker([&] {
    for (int i = 1; i <= 2000; ++i) {
      asked.store(i);
      a->net->wake();
      while (woken.load() < i) std::this_thread::yield();
    }
  });
  EXPECT_TRUE(sleepy_until(
      *a,
      [&] {
        woken.store(asked.load());
        return woken.load() == 2000;
      },
      limit));
  woken.store(2000);
}

TEST_P(events_over, an_idle_node_sleeps) {
  a->net->send(1, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run([&] { return !b->received.messages.empty(); }));
  ASSERT_TRUE(run([&] { return a->net->arm(); }));
  int wakes = 0;
  const auto end = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < end) {
    if (!sleep_until_event(*a, 50ms)) continue;
    ++wakes;
    do {
      a->net->progress();
    } while (!a->net->arm());
  }
  EXPECT_LT(wakes, 20);
}

TEST_P(events_over, closing_notifies_the_other_side_alone) {
  a->net->send(1, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run([&] { return !b->received.messages.empty(); }));
  a->net->close_peer(1, false);
  EXPECT_THROW(a->net->send(1, 0, patterned_frame(8, 1)), peer_lost);
  ASSERT_TRUE(run([&] { return !b->received.lost.empty(); }));
  EXPECT_EQ(b->received.lost[0].first, 0u);
  // The same words whatever carries the messages.
  EXPECT_EQ(b->received.lost[0].second.text, "it closed the connection");
  EXPECT_THROW(b->net->send(0, 0, patterned_frame(8, 1)), peer_lost);
  a->net->close_peer(1, true);
  b->net->close_peer(0, true);
  run([] { return false; }, 50ms);
  EXPECT_TRUE(a->received.lost.empty());
  EXPECT_EQ(b->received.lost.size(), 1u);
  EXPECT_TRUE(a->net->routes().empty());
  EXPECT_TRUE(b->net->routes().empty());
  EXPECT_THROW(a->net->add_peer(1, b->net->address()), transport_error);
}

TEST_P(events_over, closing_lets_pending_payloads_through) {
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(8 << 20, 3));
  a->net->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  a->net->close_peer(1, false);
  ASSERT_TRUE(run([&] { return !b->received.lost.empty(); }));
  ASSERT_EQ(b->received.messages.size(), 1u);
  EXPECT_TRUE(has_pattern(b->received.messages[0].payloads.at(0).data.get(), 8 << 20, 3));
}

TEST_P(events_over, a_node_that_ends_is_lost_once) {
  b->net->send(0, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run([&] { return !a->received.messages.empty(); }));
  b->net.reset();
  ASSERT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
  run_until([] { return false; }, 100ms, *a);
  EXPECT_EQ(a->received.lost.size(), 1u);
  EXPECT_EQ(a->received.lost[0].first, 1u);
  EXPECT_THROW(a->net->send(1, 0, patterned_frame(8, 1)), peer_lost);
}

TEST_P(events_over, a_sleeping_node_is_notified_of_a_loss) {
  run([] { return false; }, 20ms);
  std::jthread ending([&] {
    std::this_thread::sleep_for(30ms);
    b->net.reset();
  });
  EXPECT_TRUE(sleepy_until(
      *a, [&] { return !a->received.lost.empty(); }, limit));
}

TEST_P(events_over, a_lost_node_can_come_back_as_another) {
  b->net.reset();
  ASSERT_TRUE(run_until([&] { return !a->received.lost.empty(); }, limit, *a));
  b = made.make(1);
  a->net->add_peer(1, b->net->address());
  b->net->add_peer(0, a->net->address());
  a->net->send(1, 1, patterned_frame(9, 1));
  b->net->send(0, 1, patterned_frame(9, 1));
  EXPECT_TRUE(run([&] { return !a->received.messages.empty() && !b->received.messages.empty(); }));
  EXPECT_EQ(a->received.lost.size(), 1u);
}

// Neither end has made any progress, so that nothing longer than a few bytes can go out.
TEST_P(events_over, the_end_of_one_that_has_unsent_messages_is_noticed) {
  auto c = made.make(2);
  c->net->add_peer(1, b->net->address());
  b->net->add_peer(2, c->net->address());
  c->net->send(1, 0, patterned_frame(1000, 1));
  c->net.reset();
  ASSERT_TRUE(run_until([&] { return !b->received.lost.empty(); }, limit, *b));
  EXPECT_EQ(b->received.lost[0].first, 2u);
}

// Also where the receiver looks only afterwards.
TEST_P(events_over, what_was_sent_before_an_end_is_taken) {
  auto c = made.make(2);
  c->net->add_peer(1, b->net->address());
  b->net->add_peer(2, c->net->address());
  for (std::uint64_t i = 0; i < 100; ++i) c->net->send(1, 1, patterned_frame(8, i));
  run_until([&] { return c->net->delivered(); }, 100ms, *c);
  ASSERT_TRUE(run_until([&] { return c->net->delivered(); }, limit, *c, *b));
  c->net.reset();
  ASSERT_TRUE(run_until([&] { return !b->received.lost.empty(); }, limit, *b));
  EXPECT_EQ(b->received.messages.size(), 100u);
}

TEST_P(events_over, payloads_of_dropped_sends_are_let_go) {
  // The receiver makes no progress, so that these cannot end.
  auto bytes = std::make_shared<std::vector<std::byte>>(16 << 20);
  const auto send = [&](node& from, rank_t to) {
    for (int i = 0; i < 5; ++i) {
      std::vector<outgoing_payload> payloads;
      payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
      from->send(to, 0, patterned_frame(8, 1), std::move(payloads));
    }
  };
  send(*a, 1);
  EXPECT_FALSE(a->net->idle());
  EXPECT_GT(bytes.use_count(), 1);
  a->net.reset();
  ASSERT_TRUE(run_until([&] { return !b->received.lost.empty(); }, limit, *b));
  EXPECT_EQ(bytes.use_count(), 1);
  EXPECT_TRUE(b->received.lost.size() == 1);

  // And the receiver may be the one that goes.
  a = made.make(2);
  auto c = made.make(3);
  a->net->add_peer(3, c->net->address());
  c->net->add_peer(2, a->net->address());
  send(*a, 3);
  c->net.reset();
  ASSERT_TRUE(run_until([&] { return !a->received.lost.empty() && a->net->idle(); }, limit, *a));
  a->net->progress();
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST_P(events_over, forced_closing_drops_payloads) {
  a->net->send(1, 0, patterned_frame(8, 1));
  b->net->send(0, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run([&] { return !a->received.messages.empty() && !b->received.messages.empty(); }));
  b->received.messages.clear();
  auto bytes = std::make_shared<std::vector<std::byte>>(16 << 20);
  std::vector<outgoing_payload> payloads;
  payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
  a->net->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  a->net->close_peer(1, true);
  if (GetParam() != tested_backend::loopback) {  // there they lie with the receiver already
    EXPECT_TRUE(run_until([&] { return a->net->idle(); }, limit, *a));
  }
  EXPECT_TRUE(run([&] { return !b->received.lost.empty(); }));
  EXPECT_TRUE(run([&] { return bytes.use_count() == 1 || !b->received.messages.empty(); }));
}

TEST_P(events_over, wrong_addresses_are_refused) {
  auto c = made.make(2);
  EXPECT_THROW(c->net->send(1, 0, patterned_frame(8, 1)), transport_error);
  EXPECT_THROW(c->net->add_peer(1, a->net->address()), transport_error);  // of rank 0
  EXPECT_THROW(a->net->add_peer(1, b->net->address()), transport_error);  // connected already
  const auto good = a->net->address();
  std::mt19937 random(7);
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 8)
    EXPECT_THROW(c->net->add_peer(0, std::span(good).first(size)), transport_error);
  for (int i = 0; i < 200; ++i) {
    auto bad = good;
    if (i % 2 == 0)
      for (auto& byte : bad) byte = static_cast<std::byte>(random());
    else
      bad[random() % bad.size()] ^= static_cast<std::byte>(1 + random() % 255);
    EXPECT_THROW(c->net->add_peer(0, bad), transport_error);
  }
  c->net->add_peer(0, good);
  c->net->send(0, 0, patterned_frame(8, 1));
}

TEST_P(events_over, routes_name_lanes_and_reasons) {
  const auto routes = a->net->routes();
  ASSERT_EQ(routes.size(), 1u);
  EXPECT_EQ(routes[0].peer, 1u);
  EXPECT_FALSE(routes[0].reason.empty());
  const auto has = [&](const char* lane) {
    return routes[0].lanes.find(lane) != std::string::npos;
  };
  switch (GetParam()) {
    case tested_backend::loopback: EXPECT_TRUE(has("memory")); break;
    case tested_backend::virtual_clean:
    case tested_backend::virtual_bad: EXPECT_TRUE(has("datagrams")); break;
    case tested_backend::ucx_tcp:
      EXPECT_TRUE(has("tcp/lo"));
      EXPECT_FALSE(has("posix") || has("cma"));
      break;
    case tested_backend::tcp:
    case tested_backend::tcp_encrypted:
      EXPECT_TRUE(has("tcp/lo"));
      EXPECT_NE(routes[0].reason.find("prove that they have"), std::string::npos);
      break;
    default:
      EXPECT_TRUE(has("posix"));
      EXPECT_FALSE(has("sysv"));
      EXPECT_TRUE(has("cma")) << "this test needs process_vm_readv";
      EXPECT_FALSE(has("tcp"));
  }
}

}  // namespace
}  // namespace troupe::transport::test
