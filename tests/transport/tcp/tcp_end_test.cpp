// What has reached a host before its sender's leave is delivered, large payloads included: they
// come over streams of their own, and the leave over another one.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/transport/conformance/conformance_node.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t size = 40'000;  // two chunks

tcp_options options_of(rank_t rank, const job_secret& secret) {
  tcp_options o;
  o.rank = rank;
  o.secret = secret;
  o.interfaces = {"lo"};
  o.bulk_threshold = 1024;
  o.bulk_streams = 4;  // a chunk for each, which its socket has room for
  return o;
}

TEST(tcp_end, what_has_come_before_a_leave_is_delivered) {
  const job_secret secret;
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    node a, b;
    a.net = make_tcp_transport(options_of(0, secret), a.received, a.pool);
    b.net = make_tcp_transport(options_of(1, secret), b.received, b.pool);
    a->add_peer(1, b->address());
    b->add_peer(0, a->address());
    std::uint64_t sent = 0;
    const auto send_one = [&] {
      std::vector<outgoing_payload> payloads;
      payloads.push_back(patterned_payload(size, ++sent));
      a->send(1, 1, patterned_frame(8, sent), std::move(payloads));
    };
    send_one();
    ASSERT_TRUE(run_until([&] { return b.received.messages.size() == sent && a->delivered(); }, 20s,
                          a, b));  // connected
    for (int i = 0; i < 2; ++i) send_one();
    ASSERT_TRUE(run_until([&] { return a->idle(); }, 20s, a));  // `b` has read nothing
    a.net.reset();
    ASSERT_TRUE(run_until([&] { return !b.received.lost.empty(); }, 20s, b));
    EXPECT_EQ(b.received.lost[0].second.kind, loss_kind::left);
    ASSERT_EQ(b.received.messages.size(), sent);
    for (std::uint64_t i = 0; i < sent; ++i)
      EXPECT_TRUE(has_pattern(b.received.messages[i].payloads.at(0).data.get(), size, i + 1));
  }
}

}  // namespace
}  // namespace troupe::transport::test
