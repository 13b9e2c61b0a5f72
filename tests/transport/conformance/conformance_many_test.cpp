// Several nodes that send large payloads to one, and it to them, at the same time.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/transport/conformance/conformance_backend.hpp"

namespace troupe::transport::test {
namespace {

class many_over : public testing::TestWithParam<tested_backend> {
protected:
  static constexpr rank_t others = 6;
  static constexpr std::uint64_t each = 8;
  static constexpr std::chrono::seconds limit{100};

  void SetUp() override {
    for (rank_t rank = 0; rank <= others; ++rank) nodes_.push_back(made_.make(rank));
    for (rank_t rank = 1; rank <= others; ++rank) {
      nodes_[0]->net->add_peer(rank, nodes_[rank]->net->address());
      nodes_[rank]->net->add_peer(0, nodes_[0]->net->address());
    }
  }

  // Every second message has a payload of several chunks.
  static void send_all(node& from, rank_t to, std::uint64_t seed) {
    for (std::uint64_t i = 0; i < each; ++i) {
      std::vector<outgoing_payload> payloads;
      if (i % 2 == 1) payloads.push_back(patterned_payload(size_of(i), seed + i));
      from->send(to, 1, patterned_frame(20, seed + i), std::move(payloads));
    }
  }

  // What has come from a rank is all that it has sent, in order.
  static void expect_all(const node& at, rank_t from, std::uint64_t seed) {
    std::uint64_t i = 0;
    for (const auto& m : at.received.messages) {
      if (m.from != from) continue;
      EXPECT_TRUE(has_pattern(m.envelope.data(), 20, seed + i));
      ASSERT_EQ(m.payloads.size(), i % 2);
      if (i % 2 == 1) {
        ASSERT_EQ(m.payloads[0].size, size_of(i));
        EXPECT_TRUE(has_pattern(m.payloads[0].data.get(), size_of(i), seed + i));
      }
      ++i;
    }
    EXPECT_EQ(i, each) << "from rank " << from;
  }

  static std::size_t size_of(std::uint64_t i) { return 200'000 + i * 70'000; }

  bool all_have_come() const {
    for (rank_t rank = 1; rank <= others; ++rank)
      if (nodes_[rank]->received.messages.size() < each) return false;
    return nodes_[0]->received.messages.size() >= others * each;
  }

  job made_{GetParam()};
  std::vector<std::unique_ptr<node>> nodes_;
};
INSTANTIATE_TEST_SUITE_P(each, many_over, all_backends(), backend_name);

TEST_P(many_over, large_payloads_go_both_ways_at_once) {
  for (rank_t rank = 1; rank <= others; ++rank) {
    send_all(*nodes_[0], rank, 1'000 * rank);
    send_all(*nodes_[rank], 0, 2'000 * rank);
  }
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!all_have_come() && std::chrono::steady_clock::now() < end)
    for (const auto& one : nodes_) one->net->progress();
  for (rank_t rank = 1; rank <= others; ++rank) {
    expect_all(*nodes_[rank], 0, 1'000 * rank);
    expect_all(*nodes_[0], rank, 2'000 * rank);
    EXPECT_TRUE(nodes_[rank]->received.lost.empty());
  }
  EXPECT_TRUE(nodes_[0]->received.lost.empty());
  while (std::chrono::steady_clock::now() < end && !nodes_[0]->net->delivered())
    for (const auto& one : nodes_) one->net->progress();
  EXPECT_TRUE(nodes_[0]->net->delivered());
  EXPECT_TRUE(nodes_[0]->net->idle());
}

// Whoever was heard last, and whether or not the others were asked again meanwhile.
TEST_P(many_over, a_node_that_sleeps_is_woken_by_each_of_them) {
  constexpr std::size_t rounds = 3'000;
  std::atomic<std::size_t> heard{0};
  std::atomic<bool> over{false};
  std::thread sleeper([&] {
    auto& hub = *nodes_[0];
    while (!over) {
      const auto events = hub->progress();
      heard = hub.received.messages.size();
      if (events > 0 || !hub->arm()) continue;
      pollfd ready{hub->event_fd(), POLLIN, 0};
      ::poll(&ready, 1, -1);
    }
  });
  std::mt19937 random(5);
  const auto progress = [&] {
    for (rank_t rank = 1; rank <= others; ++rank) (*nodes_[rank])->progress();
  };
  std::size_t sent = 0;
  bool lost = false;
  while (sent < rounds && !lost) {
    const auto at_once = 1 + random() % 3;
    for (unsigned i = 0; i < at_once; ++i, ++sent)
      (*nodes_[1 + random() % others])->send(0, 0, patterned_frame(8, sent));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (heard < sent && !lost) {
      progress();
      lost = std::chrono::steady_clock::now() > end;
      std::this_thread::yield();
    }
    // Often so long that it sleeps.
    for (auto left = random() % 100; left > 0; --left) progress();
  }
  EXPECT_FALSE(lost) << "message " << heard << " of " << sent;
  over = true;
  (*nodes_[0])->wake();
  sleeper.join();
}

}  // namespace
}  // namespace troupe::transport::test
