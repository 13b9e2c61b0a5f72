// Nodes on several hosts: wires of a certain speed, who is connected to whom, and several
// interfaces.
#include "tests/transport/tcp/tcp_hosts_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

struct wire_kind {
  const char* name;
  wires how;
};

class tcp_wires : public tcp_hosts, public testing::WithParamInterface<wire_kind> {};
INSTANTIATE_TEST_SUITE_P(over, tcp_wires,
                         testing::Values(wire_kind{"one_gbit", {1, "1gbit", 1500}},
                                         wire_kind{"ten_gbit", {1, "10gbit", 9000}},
                                         wire_kind{"unshaped", {1, "", 9000}},
                                         wire_kind{"two_interfaces", {2, "1gbit", 1500}}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(tcp_wires, payloads_of_every_size_arrive_in_both_directions) {
  make_hosts(2, GetParam().how);
  if (IsSkipped()) return;
  make_nodes(2);
  const std::vector<std::size_t> sizes{0, 1, 1'000, 16'385, 65'536, 65'537, MiB, 5 * MiB + 3};
  for (const rank_t from : {0u, 1u})
    for (const auto size : sizes) send_payload(from, 1 - from, size, size);
  for (const rank_t to : {0u, 1u}) {
    ASSERT_TRUE(until([&] { return at(to).messages.size() == sizes.size(); }));
    for (const auto& m : at(to).messages) {
      const auto size = m.payloads.at(0).size;
      EXPECT_EQ(std::ranges::count(sizes, size), 1);
      EXPECT_TRUE(has_pattern(m.payloads[0].data.get(), size, size)) << size;
    }
  }
  EXPECT_TRUE(until([&] { return net(0).delivered() && net(1).delivered(); }));
  const auto route = net(0).routes().at(0);
  EXPECT_THAT(route.lanes, testing::HasSubstr("tcp/eth0 to " + net_->address(1)));
}

TEST_F(tcp_hosts, four_nodes_connect_only_to_those_they_send_to) {
  make_hosts(4);
  if (IsSkipped()) return;
  make_nodes(4);
  // All know rank 0, whose end all shall notice.
  ASSERT_TRUE(until([&] { return connections_of(0)[net_->address(0)] == 3; }));
  EXPECT_EQ(connections_of(3)[net_->address(3)], 1);
  ASSERT_TRUE(exchange(2, 3));
  EXPECT_EQ(connections_of(1)[net_->address(1)], 1);
  EXPECT_EQ(connections_of(2)[net_->address(2)], 2);
  EXPECT_EQ(connections_of(3)[net_->address(3)], 2);
  // One that ends is lost to those connected to it, and to others when they call it.
  nodes_[3].it.reset();
  ASSERT_TRUE(until([&] { return at(0).lost.size() == 1 && at(2).lost.size() == 1; }));
  EXPECT_TRUE(at(1).lost.empty());
  net(1).send(3, 0, patterned_frame(8, 1));
  ASSERT_TRUE(until([&] { return at(1).lost.size() == 1; }));
  EXPECT_EQ(at(1).lost[0].first, 3u);
}

TEST_F(tcp_hosts, a_close_is_reported_to_one_without_a_connection_when_it_sends) {
  make_hosts(3);
  if (IsSkipped()) return;
  make_nodes(3);
  net(1).close_peer(2, false);
  pass_for(100ms);
  EXPECT_TRUE(at(2).lost.empty());
  net(2).send(1, 0, patterned_frame(8, 1));
  ASSERT_TRUE(until([&] { return at(2).lost.size() == 1; }));
  EXPECT_EQ(at(2).lost[0].first, 1u);
  EXPECT_EQ(at(2).lost[0].second.kind, loss_kind::left);
  EXPECT_TRUE(at(1).lost.empty());
}

// ---- Several interfaces

TEST_F(tcp_hosts, named_interfaces_share_the_streams) {
  make_hosts(2, {2, "", 1500});
  if (IsSkipped()) return;
  make_nodes(2, [](tcp_options& o) { o.interfaces = {"eth0", "eth1"}; });
  send_payload(0, 1, 4 * MiB, 1);
  ASSERT_TRUE(until([&] { return at(1).messages.size() == 1; }));
  auto used = connections_of(0);
  EXPECT_GE(used[net_->address(0, 0)], 1);
  EXPECT_GE(used[net_->address(0, 1)], 1);
  EXPECT_EQ(used[net_->address(0, 0)] + used[net_->address(0, 1)], 3);
}

TEST_F(tcp_hosts, different_numbers_of_interfaces_are_refused) {
  make_hosts(2, {2, "", 1500});
  if (IsSkipped()) return;
  auto one = options_of(0), two = options_of(1);
  one.interfaces = {"eth0"};
  two.interfaces = {"eth0", "eth1"};
  const auto a = make(0, one), b = make(1, two);
  try {
    a.it->net->add_peer(1, b.it->net->address());
    FAIL() << "it was taken";
  } catch (const transport_error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("it uses 2 network interfaces, and this node 1"));
  }
}

TEST_F(tcp_hosts, ports_stay_within_their_range) {
  make_hosts(1);
  if (IsSkipped()) return;
  auto options = options_of(0);
  options.ports = {41'000, 41'001};
  const auto a = make(0, options), b = make(0, options);
  EXPECT_THROW(make(0, options), transport_error);
}

TEST_F(tcp_hosts, ipv6_is_enough) {
  make_hosts(2);
  if (IsSkipped()) return;
  for (const unsigned host : {0u, 1u})
    ASSERT_TRUE(hosts::run("ip -n " + net_->space(host) + " -4 addr flush dev eth0"));
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  EXPECT_THAT(net(0).routes().at(0).lanes, testing::HasSubstr("[" + net_->address6(1) + "]"));
}

}  // namespace
}  // namespace troupe::transport::test
