// A transport that is busy with one peer: the others are heard all the same, and it sleeps and
// wakes as ever afterwards.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>

#include "tests/transport/conformance/conformance_backend.hpp"

namespace troupe::transport::test {
namespace {

class busy_over : public pair_test {
protected:
  static bool there_and_back(node& from, rank_t to, node& other);
};
INSTANTIATE_TEST_SUITE_P(each, busy_over,
                         testing::Values(tested_backend::loopback, tested_backend::virtual_clean,
                                         tested_backend::ucx, tested_backend::tcp,
                                         tested_backend::tcp_encrypted,
                                         tested_backend::tcp_two_threads, tested_backend::composite,
                                         tested_backend::lending),
                         backend_name);

// One small message there and back.
bool busy_over::there_and_back(node& from, rank_t to, node& other) {
  const auto before = from.received.messages.size();
  other.received.messages.clear();
  from->send(to, 0, patterned_frame(8, 1));
  if (!run_until([&] { return !other.received.messages.empty(); }, limit, from, other))
    return false;
  other->send(0, 0, patterned_frame(8, 1));
  return run_until([&] { return from.received.messages.size() > before; }, limit, from, other);
}

TEST_P(busy_over, a_peer_is_heard_beside_one_that_sends_all_the_time) {
  job own(GetParam());
  auto hub = own.make(0), one = own.make(1), two = own.make(2);
  for (auto* n : {one.get(), two.get()}) (*n)->add_peer(0, hub->net->address());
  hub->net->add_peer(1, one->net->address());
  hub->net->add_peer(2, two->net->address());
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(there_and_back(*hub, 1, *one)) << i;
    const auto from = [&](rank_t who) {
      return std::ranges::count(hub->received.messages, who, &incoming_message::from);
    };
    const auto before = from(2);
    two->net->send(0, 0, patterned_frame(8, 2));
    const auto end = std::chrono::steady_clock::now() + limit;
    while (from(2) == before && std::chrono::steady_clock::now() < end) {
      ASSERT_TRUE(there_and_back(*hub, 1, *one));
      (*two)->progress();
    }
    ASSERT_GT(from(2), before);
  }
}

TEST_P(busy_over, a_node_that_was_busy_sleeps_and_is_woken_by_the_same_peer) {
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(there_and_back(*a, 1, *b)) << i;
    a->received.messages.clear();
    ASSERT_TRUE(run([&] { return a->net->arm(); }));
    b->net->send(0, 0, patterned_frame(8, 3));
    const auto end = std::chrono::steady_clock::now() + limit;
    while (a->received.messages.empty() && std::chrono::steady_clock::now() < end) {
      pollfd p{(*a)->event_fd(), POLLIN, 0};
      (*b)->progress();
      if (::poll(&p, 1, 1) == 1) do {
          (*a)->progress();
        } while (!(*a)->arm());
    }
    ASSERT_FALSE(a->received.messages.empty());
  }
}

}  // namespace
}  // namespace troupe::transport::test
