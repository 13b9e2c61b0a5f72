// Ends of nodes on the virtual network, which nodes are notified, and what remains.

#include <malloc.h>

#include "tests/transport/virtual/virtual_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

TEST(virtual_ends, a_crash_is_noticed) {
  virtual_world w;
  w.make_all(3);
  w.send(0, 1);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1; }));
  w.run_for(1ms);
  const auto start = w.net->now();
  EXPECT_TRUE(w.net->crash(1));
  EXPECT_FALSE(w.net->crash(1));
  EXPECT_FALSE(w.net->alive(1));
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 1 && w.lost(2) == 1; }));
  EXPECT_EQ(w.net->now() - start, 100us);
  EXPECT_EQ(w.why(0).kind, loss_kind::ended);
  EXPECT_EQ(w.why(2).kind, loss_kind::ended);
  EXPECT_THROW(w.send(0, 1), peer_lost);
  w.run_for(10s);
  EXPECT_EQ(w.lost(0) + w.lost(2), 2u);
  EXPECT_EQ(w.net->next(), virtual_time::max());
}

TEST(virtual_ends, a_silent_crash_is_noticed_by_those_who_talk) {
  auto o = clean_options();
  o.death_notice.reset();
  virtual_world w(o);
  w.make_all(3);
  w.net->crash(1);
  const auto start = w.net->now();
  w.send(0, 1);
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 1; }));
  EXPECT_EQ(w.net->now() - start, 3s);
  EXPECT_EQ(w.why(0).kind, loss_kind::broken);
  w.run_for(10s);
  EXPECT_EQ(w.lost(2), 0u);
}

TEST(virtual_ends, a_crashed_node_is_deaf_and_dumb) {
  virtual_world w;
  w.make_all(2);
  w.send(0, 1);
  w.net->advance(w.net->now() + 1ms);
  ASSERT_TRUE(w.net->ready(1));
  w.net->crash(1);
  EXPECT_FALSE(w.net->ready(1));
  const auto sent = w.net->count().sent;
  node& dead = w[1];
  dead->send(0, 1, patterned_frame(8, 1));
  dead->close_peer(0, false);
  dead->wake();
  EXPECT_EQ(dead->progress(), 0u);
  EXPECT_TRUE(dead->idle());
  EXPECT_TRUE(dead->routes().empty());
  EXPECT_TRUE(dead.received.messages.empty());
  w[1].net.reset();
  w.run_for(50us);
  EXPECT_EQ(w.net->count().sent, sent);
  EXPECT_EQ(w.received(0), 0u);
}

TEST(virtual_ends, about_half_of_what_a_crashed_node_sent_still_arrives) {
  std::size_t arrived = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    virtual_world w(clean_options(seed));
    w.make_all(2);
    for (int i = 0; i < 50; ++i) w[1]->send(0, 0, patterned_frame(8, 1));
    w.net->crash(1);
    w.run_for(1ms);
    EXPECT_GT(w.net->count().lost, 10u);
    EXPECT_LT(w.net->count().lost, 40u);
    arrived += w.received(0);
  }
  EXPECT_GT(arrived, 0u);  // up to the first gap
}

TEST(virtual_ends, a_rank_comes_back_as_another) {
  virtual_world w;
  w.make_all(2);
  w.send(0, 1, 1);
  w.send(1, 0, 1);
  w.net->crash(1);
  EXPECT_THROW(make_virtual_transport(w.net, 0, w[0].received, w[0].pool), invalid_argument);
  node& again = w.make(1);
  EXPECT_TRUE(w.net->alive(1));
  EXPECT_THROW(w.add(0, 1), transport_error);  // the loss is not reported yet
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 1; }));
  EXPECT_TRUE(again.received.messages.empty());
  w.connect(0, 1);
  w[0].received.messages.clear();
  w.send(0, 1, 2);
  w.send(1, 0, 2);
  ASSERT_TRUE(w.run([&] { return w.received(0) == 1 && w.received(1) == 1; }));
  EXPECT_TRUE(has_pattern(w[1].received.messages[0].envelope.data(), 40, 2));
  EXPECT_EQ(w.lost(0), 1u);
  EXPECT_EQ(w.lost(1), 0u);
}

TEST(virtual_ends, what_was_for_an_old_object_never_reaches_the_new_one) {
  auto o = clean_options();
  o.death_notice.reset();
  o.links.latency = 10ms;
  virtual_world w(o);
  w.make_all(2);
  for (int i = 0; i < 20; ++i) {
    w.send(0, 1);
    w.send(1, 0);
  }
  w.net->crash(1);
  w.make(1);
  w.add(1, 0);
  w.send(1, 0, 7);
  // A node that sends to the old object is reset, and then accepts what the new one has sent.
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 1; }, 50ms));
  EXPECT_EQ(w.why(0).kind, loss_kind::left);
  EXPECT_GE(w.net->count().stale, 20u);
  EXPECT_EQ(w.received(1), 0u);
  w[0].received.messages.clear();
  w.add(0, 1);
  ASSERT_TRUE(w.run([&] { return w.received(0) == 1; }));
  EXPECT_TRUE(has_pattern(w[0].received.messages[0].envelope.data(), 40, 7));
  EXPECT_EQ(w.received(1), 0u);
}

TEST(virtual_ends, a_leave_notice_is_sent_until_it_is_answered) {
  virtual_world w(bad_options(4, 0.3));
  w.make_all(20);
  w[0].net.reset();
  w.net->cut(0, 7);
  w.run_for(2s);
  for (rank_t r = 1; r < 20; ++r) EXPECT_EQ(w.lost(r), r == 7 ? 0u : 1u) << r;
  w.net->restore(0, 7);
  w.run_for(2s);
  EXPECT_EQ(w.lost(7), 1u);
  EXPECT_EQ(w.why(7).kind, loss_kind::left);
  EXPECT_EQ(w.net->next(), virtual_time::max());
}

TEST(virtual_ends, a_node_that_missed_the_leave_notice_is_reset_when_it_sends) {
  virtual_world w;
  w.make_all(3);
  w.net->partition({{0}, {1, 2}});
  w[0]->close_peer(1, false);
  w[0]->close_peer(2, true);
  w.run_for(10s);
  EXPECT_EQ(w.net->next(), virtual_time::max());  // the leave notices were given up
  EXPECT_EQ(w.lost(1) + w.lost(2), 0u);
  w.net->heal();
  w.send(1, 0);
  w.send(2, 0);
  ASSERT_TRUE(w.run([&] { return w.lost(1) == 1 && w.lost(2) == 1; }, 1ms));
  EXPECT_EQ(w.why(1).kind, loss_kind::left);
  EXPECT_EQ(w.why(1).text, "it closed the connection");
  EXPECT_EQ(w.lost(0), 0u);
  EXPECT_EQ(w.received(0), 0u);
}

TEST(virtual_ends, closing_lets_out_what_was_sent_and_takes_in_nothing) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    virtual_world w(bad_options(seed, 0.3));
    w.make_all(2);
    for (int i = 0; i < 100; ++i) {
      w.send_payload(0, 1, 1000);
      w.send(1, 0);
    }
    w[0]->close_peer(1, false);
    EXPECT_THROW(w.send(0, 1), peer_lost);
    ASSERT_TRUE(w.run([&] { return w.lost(1) == 1; }));
    EXPECT_EQ(w.received(1), 100u);
    EXPECT_TRUE(w.run([&] { return w[0]->idle() && w[1]->idle(); }));
    w.run_for(5s);
    EXPECT_EQ(w.received(0), 0u);
    EXPECT_EQ(w.lost(0), 0u);
    EXPECT_EQ(w.lost(1), 1u);
    EXPECT_EQ(w.net->next(), virtual_time::max());
  }
}

TEST(virtual_ends, closing_one_whose_loss_is_unreported_keeps_it_unreported) {
  virtual_world w;
  w.make_all(2);
  w.send(1, 0);
  w.net->advance(w.net->now() + 1ms);
  w.net->crash(1);
  w.net->advance(w.net->now() + 1ms);
  EXPECT_TRUE(w.net->ready(0));
  w[0]->close_peer(1, true);
  w.progress();
  EXPECT_EQ(w.lost(0), 0u);
}

TEST(virtual_ends, one_that_is_gone_already_is_lost_once_it_is_added) {
  virtual_world w;
  w.make(0);
  w.make(1);
  w.make(2);
  const auto left = w[1]->address();
  const auto crashed = w[2]->address();
  w.add(1, 0);
  w.send(1, 0, 5);
  w.run_for(1ms);
  EXPECT_EQ(w.received(0), 0u);
  w[1].net.reset();
  w.net->crash(2);
  w.run_for(1ms);
  w[0]->add_peer(1, left);
  w[0]->add_peer(2, crashed);
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 2; }));
  EXPECT_EQ(w.received(0), 1u);  // held back until then
  EXPECT_EQ(w[0].received.lost[0].second.kind, loss_kind::left);
  EXPECT_EQ(w[0].received.lost[1].second.kind, loss_kind::ended);
  EXPECT_THROW(w[0]->add_peer(1, left), transport_error);
}

TEST(virtual_ends, nothing_is_left_of_those_who_come_and_go) {
  virtual_world w(bad_options(9, 0.2));
  w.make_all(4);
  std::size_t before = 0;
  for (int round = 0; round < 400; ++round) {
    const rank_t rank = 1 + round % 3;
    for (rank_t r = 0; r < 4; ++r)
      if (r != rank) {
        w.send_payload(rank, r, 50'000);
        w.send_payload(r, rank, 50'000);
      }
    w.run_for(std::chrono::microseconds(round * 7 % 400));
    if (round % 2 == 0)
      w.net->crash(rank);
    else
      w[rank].net.reset();
    w.run_for(4s);
    EXPECT_EQ(w.net->next(), virtual_time::max()) << "round " << round;
    for (rank_t r = 0; r < 4; ++r) {
      EXPECT_TRUE(r == rank || w[r]->idle());
      if (r == rank) continue;
      w[r].received.messages.clear();
      EXPECT_EQ(w[r].pool.out(), 0);
      EXPECT_EQ(w.lost(r), 1u);
      w[r].received.lost.clear();
    }
    w.make(rank);
    for (rank_t r = 0; r < 4; ++r)
      if (r != rank) w.connect(r, rank);
    if (round == 100) before = mallinfo2().uordblks;
  }
  const auto after = mallinfo2().uordblks;
  EXPECT_LT(after, before + 64 * 1024);
}

TEST(virtual_ends, nothing_is_left_of_a_network) {
  std::weak_ptr<virtual_network> gone;
  std::vector<std::byte> bytes(100);
  const auto keep = std::make_shared<int>(1);
  counting_pool pool;
  {
    const auto net = std::make_shared<virtual_network>(bad_options(1, 0.2));
    gone = net;
    recorder received;
    auto a = make_virtual_transport(net, 0, received, pool);
    auto b = make_virtual_transport(net, 1, received, pool);
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
    for (int i = 0; i < 100; ++i) {
      std::vector<outgoing_payload> payloads;
      payloads.push_back({bytes.data(), bytes.size(), {}, keep});
      a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
    }
    net->advance(net->now() + 50us);
    EXPECT_GT(pool.out(), 0);
    EXPECT_GT(keep.use_count(), 1);
    net->crash(0);
  }
  EXPECT_TRUE(gone.expired());
  EXPECT_EQ(pool.out(), 0);
  EXPECT_EQ(keep.use_count(), 1);
}

TEST(virtual_ends, a_thousand_nodes_are_cheap) {
  constexpr rank_t world = 1000;
  using clock = std::chrono::steady_clock;
  const auto ms = [](clock::duration d) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(d).count();
  };
  virtual_world w;
  for (rank_t r = 0; r < world; ++r) w.make(r);
  const auto start = clock::now();
  const auto before = mallinfo2().uordblks;
  std::vector<std::vector<std::byte>> addresses;
  for (rank_t r = 0; r < world; ++r) addresses.push_back(w[r]->address());
  for (rank_t r = 0; r < world; ++r)
    for (rank_t s = 0; s < world; ++s)
      if (r != s) w[r]->add_peer(s, addresses[s]);
  const auto each = (mallinfo2().uordblks - before) / (world * (world - 1));
  std::printf("all pairs added in %lld ms, %zu bytes each\n",
              static_cast<long long>(ms(clock::now() - start)), each);
  EXPECT_LT(each, 150u);

  const auto ring = clock::now();
  const auto silent = mallinfo2().uordblks;
  for (rank_t r = 0; r < world; ++r) w.send(r, (r + 1) % world, r);
  ASSERT_TRUE(w.run([&] {
    return std::ranges::all_of(w.nodes,
                               [](auto& n) { return n.second->received.messages.size() == 1; });
  }));
  for (rank_t r = 0; r < world; ++r)
    EXPECT_EQ(w[r].received.messages[0].from, (r + world - 1) % world);
  w.run_for(10ms);
  for (auto& [rank, n] : w.nodes) n->received.messages.clear();
  std::printf("once around in %lld ms, %zu bytes for each end of a connection in use\n",
              static_cast<long long>(ms(clock::now() - ring)),
              (mallinfo2().uordblks - silent) / (2 * world));

  const auto crash = clock::now();
  w.net->crash(7);
  ASSERT_TRUE(w.run([&] {
    return std::ranges::all_of(
        w.nodes, [](auto& n) { return n.first == 7 || n.second->received.lost.size() == 1; });
  }));
  std::printf("999 are notified of a crash in %lld ms\n",
              static_cast<long long>(ms(clock::now() - crash)));

  const auto end = clock::now();
  for (auto& [rank, n] : w.nodes) n->net.reset();
  std::printf("all end in %lld ms\n", static_cast<long long>(ms(clock::now() - end)));
  w.nodes.clear();
  EXPECT_EQ(w.net.use_count(), 1);
}

}  // namespace
}  // namespace troupe::transport::test
