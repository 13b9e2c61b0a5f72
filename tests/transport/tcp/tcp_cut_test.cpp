// Wires between hosts that are cut, both ways or one way, while nothing is sent.
#include "tests/transport/tcp/tcp_hosts_fixture.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(a_wire, tcp_cut, testing::Values("both_ways", "silenced", "deafened"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(tcp_cut, is_noticed_at_both_ends_while_idle) {
  make_hosts(2);
  if (IsSkipped()) return;
  make_nodes(2);
  ASSERT_TRUE(exchange(0, 1));
  const auto since = std::chrono::steady_clock::now();
  cut();
  expect_lost(0, since);
  expect_lost(1, since);
}

}  // namespace
}  // namespace troupe::transport::test
