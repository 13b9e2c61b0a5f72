// What has reached a host before its sender's leave is delivered, large payloads included: they
// come over streams of their own, and the leave over another one.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/transport/tcp/tcp_pair.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

bool has_chunk_thread() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == "troupe-chunks") return true;
  }
  return false;
}

class tcp_end : public testing::TestWithParam<unsigned> {};  // threads for chunks
INSTANTIATE_TEST_SUITE_P(with, tcp_end, testing::Values(1u, 2u));

TEST_P(tcp_end, what_has_come_before_a_leave_is_delivered) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    // A chunk for each payload, for which sockets have room: if there are many, a smaller one. One
    // look at so many may not show the stream that says the leave.
    const bool many = round % 3 == 2;
    const std::size_t size = many ? 20'000 : 120'000;
    tcp_pair both(many ? 60 : 4, tcp_options().window, GetParam());
    auto& [a, b] = both;
    std::uint64_t sent = 0;
    const auto send_one = [&] { send_payload(a, 1, size, ++sent); };
    for (int i = 0; i < 60; ++i) send_one();  // until the kernel gives the sockets room
    ASSERT_TRUE(run_until([&] { return b.received.messages.size() == sent && a->delivered(); }, 20s,
                          a, b));  // connected
    EXPECT_EQ(has_chunk_thread(), GetParam() == 2);
    for (int i = 0; i < 2 + round % 7; ++i) send_one();
    ASSERT_TRUE(run_until([&] { return a->idle(); }, 20s, a));
    for (int i = 0; i < round % 4; ++i) b->progress();
    std::jthread ending;
    if (round % 2 == 0)
      a.net.reset();
    else  // while the other one reads
      ending = std::jthread([&] { a.net.reset(); });
    ASSERT_TRUE(run_until([&] { return !b.received.lost.empty(); }, 20s, b));
    EXPECT_EQ(b.received.lost[0].second.kind, loss_kind::left);
    ASSERT_EQ(b.received.messages.size(), sent);
    for (std::uint64_t i = 0; i < sent; ++i)
      EXPECT_TRUE(has_pattern(b.received.messages[i].payloads.at(0).data.get(), size, i + 1));
  }
}

}  // namespace
}  // namespace troupe::transport::test
