// Nodes of two hosts, two on each: shared memory on one host, TCP between them.
#include "tests/transport/tcp/tcp_hosts_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/composite/composite_address.hpp"
#include "troupe/transport/composite/composite_transport.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class composite_hosts : public tcp_hosts {
protected:
  std::unique_ptr<transport> start(const tcp_options& options, node& of) override {
    ucx_options ucx;
    ucx.rank = options.rank;
    ucx.key.fill(std::byte{42});
    ucx.trusted_network = trusted_;
    return make_composite_transport(ucx, options, of.received, of.pool);
  }
  unsigned host_of(rank_t rank) const override { return rank / 2; }

  route route_to(rank_t from, rank_t to) {
    for (auto& one : net(from).routes())
      if (one.peer == to) return one;
    return {};
  }

  bool trusted_ = false;
};

TEST_F(composite_hosts, use_shared_memory_on_one_and_tcp_between_them) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(4);
  for (const rank_t from : {0u, 1u, 2u, 3u})
    for (const rank_t to : {0u, 1u, 2u, 3u}) {
      if (from == to) continue;
      for (const std::size_t size : {std::size_t{0}, std::size_t{100'000}, 3 * MiB})
        send_payload(from, to, size, from * 4 + to);
    }
  for (const rank_t to : {0u, 1u, 2u, 3u}) {
    ASSERT_TRUE(until([&] { return at(to).messages.size() == 9; }));
    for (const auto& m : at(to).messages)
      EXPECT_TRUE(has_pattern(m.payloads.at(0).data.get(), m.payloads[0].size, m.from * 4 + to));
  }
  EXPECT_EQ(route_to(0, 1).backend, "ucx");
  EXPECT_THAT(route_to(0, 1).lanes, HasSubstr("posix"));
  EXPECT_EQ(route_to(0, 2).backend, "tcp");
  EXPECT_THAT(route_to(0, 2).lanes, HasSubstr("tcp/eth0 to " + net_->address(1)));
  EXPECT_THAT(route_to(0, 2).reason,
              HasSubstr("it is in another network namespace of this host, and the network is not "
                        "called trusted, which RDMA needs; both ends"));
  EXPECT_EQ(net(0).count().messages_sent, 9u);
  EXPECT_EQ(net(0).count().messages_received, 9u);
  EXPECT_TRUE(until([&] { return net(0).delivered() && net(3).delivered(); }));
}

TEST_F(composite_hosts, use_no_tcp_of_ucx_on_a_trusted_network) {
  make_hosts(2);
  if (IsSkipped()) return;
  trusted_ = true;
  make_nodes(3);
  ASSERT_TRUE(exchange(0, 2));
  if (route_to(0, 2).backend == "ucx") GTEST_SKIP() << "there is RDMA here";
  EXPECT_THAT(route_to(0, 2).reason, HasSubstr("UCX finds no RDMA device"));
}

TEST_F(composite_hosts, each_wake_up_is_noticed) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(3);
  ASSERT_TRUE(exchange(0, 1));
  ASSERT_TRUE(exchange(0, 2));
  for (const rank_t from : {1u, 2u}) {
    SCOPED_TRACE(from);
    for (int round = 0; round < 100; ++round) {
      at(0).messages.clear();
      pollfd p{net(0).event_fd(), POLLIN, 0};
      {
        const on_host there(*net_, 0);
        while (net(0).progress() > 0 || !net(0).arm()) {
        }
      }
      net(from).send(0, 0, patterned_frame(8, 1));
      {
        const on_host there(*net_, host_of(from));
        while (net(from).progress() > 0) {
        }
      }
      ASSERT_EQ(poll(&p, 1, 100'000), 1);
      ASSERT_TRUE(until([&] { return at(0).messages.size() == 1; }));
    }
  }
}

TEST_F(composite_hosts, the_end_of_a_node_is_noticed_on_both_hosts) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(4);
  ASSERT_TRUE(exchange(1, 3));
  ASSERT_TRUE(exchange(2, 3));
  nodes_[3].it.reset();
  for (const rank_t rank : {0u, 1u, 2u}) {
    ASSERT_TRUE(until([&] { return at(rank).lost.size() == 1; })) << rank;
    EXPECT_EQ(at(rank).lost[0].first, 3u);
    EXPECT_THROW(net(rank).send(3, 0, patterned_frame(8, 1)), peer_lost);
  }
  // It comes back on the other host.
  nodes_[3] = make(0, options_of(3));
  for (const rank_t rank : {0u, 1u, 2u}) {
    net(rank).add_peer(3, net(3).address());
    net(3).add_peer(rank, net(rank).address());
    ASSERT_TRUE(exchange(rank, 3)) << rank;
  }
  EXPECT_EQ(route_to(0, 3).backend, "ucx");
  EXPECT_EQ(route_to(2, 3).backend, "tcp");
}

TEST(composite_addresses, survive_the_wire_and_nothing_else) {
  const job_secret secret, other;
  const composite::address a{{std::byte{1}, std::byte{2}}, {std::byte{3}}};
  const auto bytes = composite::encode(a, secret);
  EXPECT_EQ(composite::decode(bytes, secret).ucx, a.ucx);
  EXPECT_EQ(composite::decode(bytes, secret).tcp, a.tcp);
  EXPECT_THROW(composite::decode(bytes, other), decode_error);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    auto bad = bytes;
    bad[i] ^= std::byte{1};
    EXPECT_THROW(composite::decode(bad, secret), decode_error);
    EXPECT_THROW(composite::decode(std::span(bytes).first(i), secret), decode_error);
  }
  EXPECT_THROW(composite::encode({std::vector<std::byte>(50'000), {}}, secret), transport_error);
}

}  // namespace
}  // namespace troupe::transport::test
