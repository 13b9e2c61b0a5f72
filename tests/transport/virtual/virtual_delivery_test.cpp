// What arrives over bad links: each message once, in its order, whatever the seed.

#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "tests/transport/virtual/virtual_fixture.hpp"

namespace troupe::transport::test {
namespace {

struct numbers {
  std::uint64_t order;
  std::uint64_t number;
  std::uint64_t payloads;
};

frame frame_of(const numbers& n) { return frame(std::as_bytes(std::span(&n, 1))); }

std::size_t payload_size(std::uint64_t number, std::uint64_t index) {
  return number * 37 % 2000 + index;
}

// Collects what nodes have received and checks whether that may be so.
class checker {
public:
  void take(rank_t at, const std::vector<incoming_message>& messages) {
    for (const auto& m : messages) {
      numbers n;
      ASSERT_EQ(m.envelope.size(), sizeof n);
      std::memcpy(&n, m.envelope.data(), sizeof n);
      ++seen_;
      auto& next = next_[{m.from, at, n.order}];
      if (n.order != 0) {
        ASSERT_EQ(n.number, next) << m.from << " to " << at << ", order " << n.order;
        ++next;
      } else {
        ASSERT_TRUE((loose_.insert({m.from, at, n.number}).second))
            << m.from << " to " << at << ", message " << n.number << " came twice";
      }
      ASSERT_EQ(m.payloads.size(), n.payloads);
      for (std::uint64_t i = 0; i < n.payloads; ++i) {
        ASSERT_EQ(m.payloads[i].size, payload_size(n.number, i));
        ASSERT_TRUE(has_pattern(m.payloads[i].data.get(), m.payloads[i].size, n.number + i));
      }
    }
  }
  std::size_t seen() const { return seen_; }

private:
  std::size_t seen_ = 0;
  std::map<std::tuple<rank_t, rank_t, std::uint64_t>, std::uint64_t> next_;
  std::set<std::tuple<rank_t, rank_t, std::uint64_t>> loose_;
};

// Sends `count` messages between three nodes in bursts, and checks all that arrives.
void exchange(virtual_world& w, std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  w.make_all(3);
  std::map<std::tuple<rank_t, rank_t, std::uint64_t>, std::uint64_t> next;
  checker check;
  const auto take = [&] {
    for (auto& [rank, n] : w.nodes) {
      check.take(rank, n->received.messages);
      n->received.messages.clear();
    }
    return testing::Test::HasFatalFailure();
  };
  for (std::size_t sent = 0; sent < count;) {
    for (auto burst = random() % 200; burst > 0 && sent < count; --burst, ++sent) {
      const rank_t from = random() % 3;
      const rank_t to = (from + 1 + random() % 2) % 3;
      const std::uint64_t order = random() % 6;
      const numbers n{order, next[{from, to, order}]++, random() % 8 == 0 ? 1 + random() % 3 : 0};
      std::vector<outgoing_payload> payloads;
      for (std::uint64_t i = 0; i < n.payloads; ++i)
        payloads.push_back(patterned_payload(payload_size(n.number, i), n.number + i));
      w[from]->send(to, order, frame_of(n), std::move(payloads));
    }
    w.run(take, std::chrono::microseconds(random() % 3000));
    if (testing::Test::HasFatalFailure()) return;
  }
  w.run([&] { return take() || check.seen() == count; });
  EXPECT_EQ(check.seen(), count);
  EXPECT_TRUE(w.run([&] { return w[0]->idle() && w[1]->idle() && w[2]->idle(); }));
  w.run_for(1s);
  take();
  EXPECT_EQ(check.seen(), count);
  EXPECT_EQ(w.net->next(), virtual_time::max());
  for (rank_t r = 0; r < 3; ++r) {
    EXPECT_EQ(w.lost(r), 0u);
    EXPECT_EQ(w[r].pool.out(), 0);
  }
}

TEST(virtual_delivery, thirty_in_a_hundred_lost_and_all_arrives_once_and_in_order) {
  datagram_counters all;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    virtual_world w(bad_options(seed, 0.3));
    exchange(w, seed, 2000);
    if (HasFailure()) return;
    const auto c = w.net->count();
    all.sent += c.sent;
    all.lost += c.lost;
    all.resent += c.resent;
    all.repeated += c.repeated;
  }
  std::printf(
      "%llu datagrams sent, %llu of them again, %llu lost, %llu came twice\n",
      static_cast<unsigned long long>(all.sent), static_cast<unsigned long long>(all.resent),
      static_cast<unsigned long long>(all.lost), static_cast<unsigned long long>(all.repeated));
}

TEST(virtual_delivery, every_kind_of_link_delivers) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    auto o = bad_options(seed, static_cast<double>(random() % 4) / 10);
    o.links.latency = std::chrono::microseconds(1 + random() % 20'000);
    o.links.jitter = std::chrono::microseconds(random() % 5'000);
    o.links.reorder_delay = std::chrono::microseconds(random() % 20'000);
    if (random() % 2 == 0) o.links.bandwidth = static_cast<double>(1 + random() % 100) * 1e6;
    virtual_world w(o);
    exchange(w, seed, 300);
    if (HasFailure()) return;
  }
}

TEST(virtual_delivery, what_was_sent_is_kept_until_it_is_acknowledged) {
  virtual_world w;
  w.make_all(2);
  auto bytes = std::make_shared<std::vector<std::byte>>(1000);
  std::vector<outgoing_payload> payloads;
  payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
  w.net->cut(1, 0);  // no acknowledgement comes
  w[0]->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1; }));
  w.run_for(1s);
  EXPECT_FALSE(w[0]->idle());
  EXPECT_GT(bytes.use_count(), 1);
  w.net->restore(1, 0);
  w.run_for(200ms);
  EXPECT_TRUE(w[0]->idle());
  EXPECT_EQ(bytes.use_count(), 1);
  EXPECT_EQ(w.received(1), 1u);
}

TEST(virtual_delivery, a_node_that_makes_no_progress_is_not_lost) {
  virtual_world w;
  w.make_all(2);
  for (int i = 0; i < 1000; ++i) w.send(0, 1);
  w.net->advance(w.net->now() + 1min);
  EXPECT_TRUE(w[0]->idle());
  w.progress();
  EXPECT_EQ(w.lost(0), 0u);
  EXPECT_EQ(w.received(1), 1000u);
}

TEST(virtual_delivery, a_lossy_link_loses_no_peer_in_an_hour) {
  auto o = bad_options(3, 0.3);
  virtual_world w(o);
  w.make_all(2);
  for (std::size_t i = 1; i <= 3600; ++i) {
    w.send(0, 1);
    w.send(1, 0);
    w.run_for(1s);
    ASSERT_EQ(w.received(0), i);
    ASSERT_EQ(w.received(1), i);
  }
  EXPECT_EQ(w.lost(0) + w.lost(1), 0u);
}

TEST(virtual_delivery, only_host_memory_is_carried) {
  virtual_world w;
  w.make_all(2);
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(8, 1));
  payloads[0].place.where = memory_place::kind::cuda;
  EXPECT_ANY_THROW(w[0]->send(1, 0, patterned_frame(8, 1), std::move(payloads)));
  EXPECT_TRUE(w[0]->idle());
}

// A pool without memory: the peer whose payload finds none is given up.
struct empty_pool : payload_pool {
  std::shared_ptr<std::byte> allocate(std::size_t, memory_place) override {
    throw std::bad_alloc();
  }
};

TEST(virtual_delivery, a_payload_without_memory_ends_the_connection) {
  virtual_world w;
  w.make(0);
  recorder received;
  empty_pool none;
  auto b = make_virtual_transport(w.net, 1, received, none);
  w[0]->add_peer(1, b->address());
  b->add_peer(0, w[0]->address());
  w.send_payload(0, 1, 100);
  w.run_for(1ms);
  b->progress();
  ASSERT_EQ(received.lost.size(), 1u);
  EXPECT_EQ(received.lost[0].second.kind, loss_kind::broken);
  EXPECT_TRUE(received.messages.empty());
  EXPECT_EQ(w.lost(0), 1u);
  EXPECT_TRUE(w[0]->idle());
}

}  // namespace
}  // namespace troupe::transport::test
