// What has reached a host before its sender's leave is delivered, large payloads included: they
// come over streams of their own, and the leave over another one.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "tests/transport/tcp/tcp_pair.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t size = 70'000;  // two chunks

TEST(tcp_end, what_has_come_before_a_leave_is_delivered) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    tcp_pair both(4);  // a chunk for each stream, which its socket has room for
    auto& [a, b] = both;
    std::uint64_t sent = 0;
    const auto send_one = [&] { send_payload(a, 1, size, ++sent); };
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
