// Streams for large payloads that the kernel has filled: all of them go on when the other end
// reads.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/transport/tcp/tcp_pair.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

// Until it would sleep: an engine calls it again when its descriptor is readable.
void progress_until_it_sleeps(node& one) {
  do {
    while (one->progress() > 0) {
    }
  } while (!one->arm());
}

bool is_awake(node& one) {
  pollfd event{one->event_fd(), POLLIN, 0};
  return poll(&event, 1, 0) > 0;
}

// Both streams are filled, the second one by the last of all payloads; then the other node reads
// everything, so that both can be written again at once and there is nothing else to send.
TEST(tcp_stall, no_stream_is_forgotten_that_can_be_written_again) {
  tcp_pair both;
  auto& [a, b] = both;
  std::uint64_t sent = 0;
  const auto send_one = [&] { send_payload(a, 1, 20'000, ++sent); };  // one chunk
  const auto take_all = [&](int round) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (b.received.messages.size() < sent && std::chrono::steady_clock::now() < end) {
      if (is_awake(b)) progress_until_it_sleeps(b);
      if (is_awake(a)) progress_until_it_sleeps(a);
    }
    EXPECT_EQ(b.received.messages.size(), sent) << "it has come to a stop in round " << round;
  };
  send_one();
  take_all(-1);  // connected
  // How many the second stream takes after the first one is full is not known: a few.
  for (int round = 0; round < 80; ++round) {
    sent = 0;
    b.received.messages.clear();
    do {
      send_one();
      progress_until_it_sleeps(a);
    } while (a->idle());
    for (int i = 0; i < round % 4; ++i) {
      send_one();
      progress_until_it_sleeps(a);
    }
    take_all(round);
    if (HasFailure()) return;
    for (std::uint64_t i = 0; i < sent; ++i)
      EXPECT_TRUE(has_pattern(b.received.messages[i].payloads.at(0).data.get(), 20'000, i + 1));
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!a->delivered() && std::chrono::steady_clock::now() < end) {
      a->progress();
      b->progress();
    }
    EXPECT_TRUE(a->delivered());
  }
}

// Each turn of the node that reads brings it a whole message.
TEST(tcp_stall, payloads_are_sent_in_turns_with_those_that_come) {
  tcp_pair both;
  auto& [a, b] = both;
  std::size_t sent = 0;
  const auto flood = [&] {
    while (sent < b.received.messages.size() + 64) {
      send_payload(a, 1, 65'536, 1);
      ++sent;
    }
    for (int i = 0; i < 8; ++i) a->progress();  // what comes is read faster than it goes
    b->progress();
  };
  send_payload(b, 0, 65'536, 1);
  const auto turns = [&](std::size_t messages, int most) {
    int n = 0;
    for (; n < most && a.received.messages.size() < messages; ++n) flood();
    return n;
  };
  ASSERT_LT(turns(1, 1'000'000), 1'000'000);  // connected
  for (int i = 0; i < 8; ++i) send_payload(b, 0, 1 << 20, 1);
  // 18 chunks of 60 KiB each, of which no one waits for more than two turns.
  EXPECT_LE(turns(9, 20'000), 8 * 18 * 2);
}

// The receiver takes no message that is far ahead of those it has: payloads wait for it.
TEST(tcp_stall, payloads_far_ahead_of_what_is_acknowledged_wait) {
  tcp_pair both(2, 100);
  auto& [a, b] = both;
  send_payload(a, 1, 20'000, 1);
  ASSERT_TRUE(
      run_until([&] { return b.received.messages.size() == 1 && a->delivered(); }, 20s, a, b));
  for (int i = 0; i < 200; ++i) a->send(1, 0, patterned_frame(8, 2));
  send_payload(a, 1, 20'000, 3);
  progress_until_it_sleeps(a);
  ASSERT_TRUE(run_until([&] { return b.received.messages.size() == 202; }, 20s, a, b));
  EXPECT_TRUE(has_pattern(b.received.messages[201].payloads.at(0).data.get(), 20'000, 3));
}

}  // namespace
}  // namespace troupe::transport::test
