// A peer that is lost and closed at one time.

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/transport/conformance/conformance_backend.hpp"

namespace troupe::transport::test {
namespace {

struct reacting_sink final : sink {
  void on_message(incoming_message&&) override {
    if (then) std::exchange(then, nullptr)();
  }
  void on_peer_lost(rank_t, peer_loss) override { ++lost; }

  std::function<void()> then;
  int lost = 0;
};

class ends_of_a_peer : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(forced_or_not, ends_of_a_peer, testing::Bool());

// The other one's last message has this one close the connection, from another thread, while what
// was sent to it is not yet on its way.
TEST_P(ends_of_a_peer, from_both_sides_are_one) {
  reacting_sink received;
  counting_pool pool;
  const auto here = make_ucx_transport(options_of(tested_backend::ucx, 0), received, pool);
  node there;
  there.net = make_ucx_transport(options_of(tested_backend::ucx, 1), there.received, there.pool);
  here->add_peer(1, there->address());
  there->add_peer(0, here->address());
  const auto both = [&] {
    for (int i = 0; i < 2000; ++i) {
      here->progress();
      there->progress();
    }
  };
  there->send(0, 0, patterned_frame(8, 1));
  both();
  here->send(1, 0, patterned_frame(8, 1));
  both();
  const auto bytes = std::make_shared<std::vector<std::byte>>(64 << 20);
  for (int i = 0; i < 3000; ++i) here->send(1, 0, patterned_frame(8, 2));
  for (int i = 0; i < 3; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    here->send(1, 0, patterned_frame(8, 3), std::move(payloads));
  }
  EXPECT_FALSE(here->idle());
  received.then = [&] { std::jthread([&] { here->close_peer(1, GetParam()); }); };
  there->send(0, 0, patterned_frame(8, 4));
  there.net.reset();
  for (int i = 0; i < 4000; ++i) here->progress();
  EXPECT_FALSE(received.then);
  EXPECT_LE(received.lost, 1);
  EXPECT_TRUE(here->idle());
  EXPECT_EQ(bytes.use_count(), 1);
}

}  // namespace
}  // namespace troupe::transport::test
