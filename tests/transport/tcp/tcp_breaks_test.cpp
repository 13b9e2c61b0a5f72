// Connections between hosts that are slow, half open, reset on the way, or on an interface that
// fails.
#include "tests/transport/tcp/tcp_hosts_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

// A wire that is slow is not one that is cut: a transfer may take many times the limit.
TEST_F(tcp_hosts, a_slow_wire_loses_no_peer) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(2, [](tcp_options& o) { o.limit = 1s; });
  ASSERT_TRUE(exchange(0, 1));
  at(1).messages.clear();
  net_->slow(1, "8mbit");
  send_payload(0, 1, 4 * MiB, 9);  // 4 s
  pass_for(2s);
  EXPECT_TRUE(exchange(0, 1));  // small calls go on
  net_->heal(1);
  ASSERT_TRUE(until([&] {
    return std::ranges::any_of(at(1).messages, [](const auto& m) { return !m.payloads.empty(); });
  }));
  EXPECT_TRUE(at(0).lost.empty());
  EXPECT_TRUE(at(1).lost.empty());
}

TEST_F(tcp_hosts, a_node_sleeps_while_its_streams_are_full) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  net_->slow(1, "8mbit");
  send_payload(0, 1, 16 * MiB, 1);
  send_payload(0, 1, 100'000, 2);
  pass_for(300ms);
  int asleep = 0, awake = 0;
  for (int i = 0; i < 50; ++i) {
    const on_host there(*net_, 0);
    while (net(0).progress() > 0) ++awake;
    pollfd p{net(0).event_fd(), POLLIN, 0};
    if (net(0).arm() && poll(&p, 1, 10) == 0) ++asleep;
  }
  EXPECT_GT(asleep, 0);
  EXPECT_LT(awake, 2'000);
}

// The other host has started again, and knows nothing of the connection.
TEST_F(tcp_hosts, a_half_open_connection_is_given_up_at_once) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  net_->cut(1);
  nodes_[1].it.reset();
  net_->heal(1);
  const auto since = std::chrono::steady_clock::now();
  net(0).send(1, 0, patterned_frame(8, 3));
  expect_lost(0, since);
  nodes_[1] = make(1, options_of(1));
  net(0).add_peer(1, net(1).address());
  net(1).add_peer(0, net(0).address());
  EXPECT_TRUE(exchange(0, 1));
}

TEST_F(tcp_hosts, resets_on_the_way_lose_nothing) {
  make_hosts(2, {1, "1gbit", 1500});
  if (IsSkipped()) return;
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  if (!net_->reset_connections(0)) GTEST_SKIP() << "`ss -K` ends no connections here";
  at(1).messages.clear();
  std::size_t sent = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 20; ++i, ++sent) send_payload(0, 1, i % 5 == 0 ? 2 * MiB : 10, sent);
    pass_for(20ms);
    net_->reset_connections(round % 2);
    pass_for(100ms);
  }
  ASSERT_TRUE(until([&] { return at(1).messages.size() >= sent; }));
  pass_for(300ms);  // for what comes twice
  EXPECT_EQ(at(1).messages.size(), sent);
  std::vector<bool> here(sent);
  for (const auto& m : at(1).messages) {
    std::size_t seed = 0;
    while (seed < sent && !(!here[seed] && has_pattern(m.envelope.data(), 100, seed) &&
                            m.payloads.at(0).size == (seed % 5 == 0 ? 2 * MiB : 10) &&
                            has_pattern(m.payloads[0].data.get(), m.payloads[0].size, seed)))
      ++seed;
    ASSERT_LT(seed, sent) << "a message that was not sent, or comes twice";
    here[seed] = true;
  }
  EXPECT_TRUE(at(0).lost.empty());
  EXPECT_TRUE(at(1).lost.empty());
}

TEST_F(tcp_hosts, an_interface_that_fails_is_replaced_by_another) {
  make_hosts(2, {2, "1gbit", 1500});
  if (IsSkipped()) return;
  make_nodes(2, [](tcp_options& o) { o.interfaces = {"eth0", "eth1"}; });
  ASSERT_TRUE(exchange(0, 1));
  at(1).messages.clear();
  net_->cut(1, 1);  // the messages of ranks 0 and 1 go over the second one
  for (int i = 0; i < 4; ++i) send_payload(0, 1, 4 * MiB, i);
  ASSERT_TRUE(until([&] { return at(1).messages.size() == 4; }));
  EXPECT_TRUE(at(1).lost.empty());
  EXPECT_TRUE(at(0).lost.empty());
}

}  // namespace
}  // namespace troupe::transport::test
