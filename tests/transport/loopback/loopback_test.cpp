// What only the loopback network has; the conformance suite tests the rest.

#include "troupe/transport/loopback/loopback.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

TEST(loopback, a_rank_is_taken_until_its_node_ends) {
  job made(tested_backend::loopback);
  auto a = made.make(0);
  EXPECT_THROW(made.make(0), invalid_argument);
  a.reset();
  EXPECT_NO_THROW(a = made.make(0));
}

TEST(loopback, networks_are_apart) {
  job one(tested_backend::loopback);
  job two(tested_backend::loopback);
  auto a = one.make(0);
  auto b = two.make(1);
  EXPECT_THROW(a->net->add_peer(1, b->net->address()), transport_error);
}

TEST(loopback, payloads_are_copied) {
  job made(tested_backend::loopback);
  auto a = made.make(0);
  auto b = made.make(1);
  a->net->add_peer(1, b->net->address());
  b->net->add_peer(0, a->net->address());
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(100, 3));
  const std::byte* sent = payloads[0].data;
  a->net->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  ASSERT_TRUE(run_until([&] { return !b->received.messages.empty(); }, 100s, *a, *b));
  EXPECT_NE(b->received.messages[0].payloads[0].data.get(), sent);
  EXPECT_EQ(b->pool.out(), 1);
  EXPECT_TRUE(a->net->idle());
}

TEST(loopback, three_thousand_nodes_live_in_one_process) {
  constexpr rank_t world = 3000;
  job made(tested_backend::loopback);
  std::vector<std::unique_ptr<node>> nodes;
  for (rank_t r = 0; r < world; ++r) nodes.push_back(made.make(r));
  // A ring, once around.
  for (rank_t r = 0; r < world; ++r) {
    const rank_t next = (r + 1) % world;
    nodes[r]->net->add_peer(next, nodes[next]->net->address());
    nodes[next]->net->add_peer(r, nodes[r]->net->address());
  }
  for (rank_t r = 0; r < world; ++r)
    nodes[r]->net->send((r + 1) % world, 1, frame(std::as_bytes(std::span(&r, 1))));
  for (auto& n : nodes) n->net->progress();
  for (rank_t r = 0; r < world; ++r) {
    ASSERT_EQ(nodes[r]->received.messages.size(), 1u);
    rank_t from = 0;
    std::memcpy(&from, nodes[r]->received.messages[0].envelope.data(), sizeof from);
    EXPECT_EQ(from, (r + world - 1) % world);
  }
  nodes[7].reset();
  nodes[6]->net->progress();
  nodes[8]->net->progress();
  EXPECT_EQ(nodes[6]->received.lost.size(), 1u);
  EXPECT_EQ(nodes[8]->received.lost.size(), 1u);
}

}  // namespace
}  // namespace troupe::transport::test
