// What links and clock of the virtual network do; virtual_delivery_test.cpp is about what arrives,
// virtual_ends_test.cpp about nodes that have ended.

#include <random>

#include "tests/transport/virtual/virtual_fixture.hpp"

namespace troupe::transport::test {
namespace {

// Some random traffic, a partition, a crash and a return.
std::string story(std::uint64_t seed) {
  virtual_world w(bad_options(seed, 0.2));
  w.keep_trace();
  w.make_all(4);
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    const rank_t from = random() % 4;
    const rank_t to = (from + 1 + random() % 3) % 4;
    try {
      if (random() % 5 == 0)
        w.send_payload(from, to, random() % 100'000);
      else
        w.send(from, to, random());
    } catch (const std::exception&) {
    }
    if (i == 100) w.net->partition({{0, 1}, {2, 3}});
    if (i == 150) w.net->heal();
    if (i == 200) w.net->crash(3);
    if (i == 250) w.make(3);
    w.run_for(std::chrono::microseconds(random() % 100));
  }
  w.run_for(5s);
  return w.trace;
}

TEST(virtual_network, a_seed_determines_everything) {
  const std::string once = story(1);
  EXPECT_GT(std::ranges::count(once, '\n'), 1000);
  EXPECT_EQ(once, story(1));
  EXPECT_NE(once, story(2));
  EXPECT_EQ(story(2), story(2));
}

TEST(virtual_network, a_trace_can_be_read) {
  virtual_world w;
  w.keep_trace();
  w.make_all(2);
  w.send(0, 1);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1 && w[0]->idle(); }));
  EXPECT_EQ(w.trace.substr(0, w.trace.find('\n')), "3600.000000000 0>1 message 0 104 sent");
  EXPECT_NE(w.trace.find(" 1>0 ack 0 64 delivered\n"), std::string::npos) << w.trace;
}

TEST(virtual_network, time_goes_forward_alone) {
  virtual_world w;
  EXPECT_EQ(w.net->now(), virtual_time(1h));
  EXPECT_EQ(w.net->next(), virtual_time::max());
  w.net->advance(virtual_time(2h));
  w.net->advance(virtual_time(1h));
  EXPECT_EQ(w.net->now(), virtual_time(2h));
  w.make_all(2);
  w.send(0, 1);
  EXPECT_GT(w.net->next(), w.net->now());
  w.net->advance(virtual_time::max());
  EXPECT_EQ(w.net->next(), virtual_time::max());
  EXPECT_LT(w.net->now(), virtual_time(3h));
}

TEST(virtual_network, latency_is_between_its_bounds) {
  auto o = clean_options();
  o.links.latency = 1ms;
  o.links.jitter = 500us;
  virtual_world w(o);
  w.make_all(2);
  auto least = 1h + 0ns;
  auto most = 0ns;
  for (int i = 1; i <= 200; ++i) {
    const auto start = w.net->now();
    w.send(0, 1);
    ASSERT_TRUE(w.run([&] { return w.received(1) == static_cast<std::size_t>(i); }));
    const auto took = w.net->now() - start;
    least = std::min(least, took);
    most = std::max(most, took);
  }
  EXPECT_GE(least, 1ms);
  EXPECT_LE(most, 1500us);
  EXPECT_GT(most - least, 400us);
}

TEST(virtual_network, bandwidth_makes_payloads_wait_for_one_another_and_envelopes_not_for_them) {
  auto o = clean_options();
  o.links.bandwidth = 1e9;
  virtual_world w(o);
  w.make_all(2);
  const auto start = w.net->now();
  for (int i = 0; i < 10; ++i) w.send_payload(0, 1, 1'000'000);
  w.send(0, 1);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1; }));
  EXPECT_LT(w.net->now() - start, 200us);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 11; }));
  EXPECT_GT(w.net->now() - start, 10ms);
  EXPECT_LT(w.net->now() - start, 11ms);
  EXPECT_EQ(w.net->count().resent, 0u);
}

TEST(virtual_network, a_payload_may_take_longer_than_the_limit) {
  auto o = clean_options();
  o.links.bandwidth = 1e6;
  o.links.loss = 0.3;
  virtual_world w(o);
  w.make_all(2);
  w.send_payload(0, 1, 10'000'000);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1; }, 10min));
  EXPECT_EQ(w.lost(0), 0u);
}

datagram_counters after_traffic(const link_conditions& conditions) {
  auto o = clean_options(5);
  o.links = conditions;
  virtual_world w(o);
  w.make_all(2);
  for (std::size_t i = 1; i <= 500; ++i) {
    w.send(0, 1);
    w.send(1, 0);
    EXPECT_TRUE(w.run([&] { return w.received(0) == i && w.received(1) == i; }));
  }
  return w.net->count();
}

TEST(virtual_network, what_a_link_does_is_counted) {
  const auto clean = after_traffic({});
  EXPECT_GE(clean.sent, 1000u);
  EXPECT_EQ(clean.lost + clean.doubled + clean.reordered + clean.resent + clean.repeated, 0u);

  const auto near = [](std::uint64_t count, const datagram_counters& of, double share) {
    const double expected = static_cast<double>(of.sent) * share;
    EXPECT_GT(static_cast<double>(count), expected * 0.7);
    EXPECT_LT(static_cast<double>(count), expected * 1.3);
  };
  link_conditions lossy;
  lossy.loss = 0.2;
  const auto lost = after_traffic(lossy);
  near(lost.lost, lost, 0.2);
  EXPECT_GT(lost.resent, 100u);
  EXPECT_EQ(lost.doubled + lost.reordered, 0u);

  link_conditions doubling;
  doubling.duplication = 0.2;
  const auto doubled = after_traffic(doubling);
  near(doubled.doubled, doubled, 0.2);
  EXPECT_GT(doubled.repeated, 100u);
  EXPECT_EQ(doubled.lost + doubled.reordered, 0u);

  link_conditions reordering;
  reordering.reordering = 0.2;
  const auto reordered = after_traffic(reordering);
  near(reordered.reordered, reordered, 0.2);
  EXPECT_EQ(reordered.lost + reordered.doubled, 0u);
}

TEST(virtual_network, a_link_may_have_conditions_of_its_own) {
  virtual_world w;
  w.make_all(3);
  link_conditions slow;
  slow.latency = 50ms;
  w.net->set_link(0, 1, slow);
  const auto start = w.net->now();
  w.send(0, 1);
  w.send(0, 2);
  ASSERT_TRUE(w.run([&] { return w.received(2) == 1; }));
  EXPECT_LT(w.net->now() - start, 1ms);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1; }));
  EXPECT_GE(w.net->now() - start, 50ms);
  slow.latency = 5ms;
  w.net->set_links(slow);
  const auto then = w.net->now();
  w.send(1, 0);
  ASSERT_TRUE(w.run([&] { return w.received(0) == 1; }));
  EXPECT_GE(w.net->now() - then, 5ms);
  EXPECT_LT(w.net->now() - then, 6ms);
}

TEST(virtual_network, a_cut_is_of_one_direction) {
  virtual_world w;
  w.make_all(2);
  w.net->cut(0, 1);
  w.send(0, 1);
  w.send(1, 0);
  w.run_for(500ms);
  EXPECT_EQ(w.received(1), 0u);
  EXPECT_EQ(w.received(0), 1u);
  EXPECT_GT(w.net->count().cut, 5u);
  w.net->restore(0, 1);
  ASSERT_TRUE(w.run([&] { return w.received(1) == 1 && w[0]->idle() && w[1]->idle(); }));
  EXPECT_EQ(w.received(0), 1u);
  EXPECT_EQ(w.lost(0) + w.lost(1), 0u);
}

TEST(virtual_network, a_cut_takes_what_is_under_way) {
  virtual_world w;
  w.make_all(2);
  w.send(0, 1);
  w.net->cut(0, 1);
  w.run_for(10us);
  w.net->restore(0, 1);
  EXPECT_EQ(w.net->count().cut, 0u);
  w.net->cut(0, 1);
  w.run_for(40us);
  EXPECT_EQ(w.net->count().cut, 1u);
}

TEST(virtual_network, a_partition_that_heals_in_time_loses_nothing) {
  virtual_world w;
  w.make_all(5);
  w.net->partition({{0, 1}, {2, 3}});
  for (rank_t r = 0; r < 5; ++r)
    for (rank_t s = 0; s < 5; ++s)
      if (r != s) w.send(r, s);
  w.run_for(2900ms);
  for (rank_t r = 0; r < 4; ++r) EXPECT_EQ(w.received(r), 2u);
  EXPECT_EQ(w.received(4), 4u);  // on every side
  w.net->heal();
  EXPECT_TRUE(w.run([&] {
    return std::ranges::all_of(w.nodes,
                               [](auto& n) { return n.second->received.messages.size() == 4; });
  }));
  for (rank_t r = 0; r < 5; ++r) EXPECT_EQ(w.lost(r), 0u);
}

TEST(virtual_network, a_partition_that_lasts_loses_those_who_talk) {
  virtual_world w;
  w.make_all(4);
  w.net->partition({{0, 1}, {2, 3}});
  const auto start = w.net->now();
  w.send(0, 2);
  ASSERT_TRUE(w.run([&] { return w.lost(0) == 1; }));
  EXPECT_EQ(w.net->now() - start, 3s);
  EXPECT_EQ(w.why(0).kind, loss_kind::broken);
  EXPECT_EQ(w.why(0).text, "it acknowledged nothing for 3000 ms");
  w.run_for(10s);
  EXPECT_EQ(w.lost(0), 1u);
  EXPECT_EQ(w.lost(1) + w.lost(2) + w.lost(3), 0u);  // the silent know nothing
  EXPECT_EQ(w.net->next(), virtual_time::max());
  w.net->heal();
  w.send(2, 0);  // and a node that sends to one that has given it up is reset
  ASSERT_TRUE(w.run([&] { return w.lost(2) == 1; }, 1ms));
  EXPECT_EQ(w.why(2).kind, loss_kind::left);
  EXPECT_EQ(w.received(0), 0u);
  w.send(1, 3);
  EXPECT_TRUE(w.run([&] { return w.received(3) == 1; }));
}

TEST(virtual_network, reports_who_can_make_progress) {
  std::vector<rank_t> ready_ranks;
  virtual_world w;
  w.net->on_ready = [&](rank_t rank) { ready_ranks.push_back(rank); };
  w.make_all(3);
  w.send(0, 1);
  w.send(0, 1);
  EXPECT_FALSE(w.net->ready(1));
  w.net->advance(w.net->now() + 100us);
  EXPECT_TRUE(w.net->ready(1));
  EXPECT_FALSE(w.net->ready(0) || w.net->ready(2) || w.net->ready(9));
  EXPECT_EQ(ready_ranks, std::vector<rank_t>{1});
  EXPECT_EQ(w[1]->progress(), 2u);
  EXPECT_FALSE(w.net->ready(1));
  EXPECT_EQ(w[1]->progress(), 0u);
  w[2]->wake();
  EXPECT_TRUE(w.net->ready(2));
  EXPECT_EQ(ready_ranks, (std::vector<rank_t>{1, 2}));
  EXPECT_FALSE(w[2]->arm());
  EXPECT_TRUE(w[2]->arm());
}

}  // namespace
}  // namespace troupe::transport::test
