// Wires between hosts that are cut while payloads are under way, both ways or one way, and healed.
#include "tests/transport/tcp/tcp_hosts_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(a_wire, tcp_cut, testing::Values("both_ways", "silenced", "deafened"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(tcp_cut, is_noticed_at_both_ends_with_payloads_under_way) {
  make_hosts(2, {1, "1gbit", 1500});
  if (IsSkipped()) return;
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  for (int i = 0; i < 4; ++i) send_payload(0, 1, 64 * MiB, 1);
  pass_for(50ms);
  const auto since = std::chrono::steady_clock::now();
  cut();
  expect_lost(0, since);
  expect_lost(1, since);
}

// Shorter than a peer may be out of reach.
TEST_P(tcp_cut, that_is_healed_in_time_loses_nothing) {
  make_hosts(2, {1, "1gbit", 1500});
  if (IsSkipped()) return;
  make_nodes(2, [](tcp_options& o) {
    o.keepalive = 10s;
    o.limit = 60s;
  });
  ASSERT_TRUE(exchange(0, 1));
  at(1).messages.clear();
  constexpr int messages = 40;
  for (int i = 0; i < messages; ++i) send_payload(0, 1, i % 4 == 0 ? 4 * MiB : 100, i);
  pass_for(20ms);
  cut();
  pass_for(400ms);
  net_->heal(1);
  ASSERT_TRUE(until([&] { return at(1).messages.size() == messages; }));
  std::map<std::size_t, int> sizes;
  for (const auto& m : at(1).messages) ++sizes[m.payloads.at(0).size];
  EXPECT_EQ(sizes[4 * MiB], messages / 4);
  EXPECT_EQ(sizes[100], messages - messages / 4);
  EXPECT_TRUE(at(0).lost.empty());
  EXPECT_TRUE(at(1).lost.empty());
}

}  // namespace
}  // namespace troupe::transport::test
