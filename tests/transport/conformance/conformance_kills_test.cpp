// Transports between processes, one of which dies.

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>
#include <vector>

#include "tests/transport/conformance/conformance_processes.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

class killed_processes : public processes {};
INSTANTIATE_TEST_SUITE_P(each, killed_processes, every_backend(), backend_name);

TEST_P(killed_processes, a_kill_is_noticed_while_polling) {
  start("echo");
  exchange_one();
  other->kill(SIGKILL);
  expect_ended();
}

TEST_P(killed_processes, a_kill_is_noticed_while_asleep) {
  start("echo");
  exchange_one();
  const pid_t victim = other->pid();
  const std::jthread killer([victim] {
    std::this_thread::sleep_for(20ms);
    ::kill(victim, SIGKILL);
  });
  const auto end = std::chrono::steady_clock::now() + limit;
  while (a.received.lost.empty() && std::chrono::steady_clock::now() < end) {
    if (a->progress() > 0 || !a->arm()) continue;
    pollfd p{a->event_fd(), POLLIN, 0};
    poll(&p, 1, 10'000);
  }
  expect_ended();
}

TEST_P(killed_processes, a_kill_before_anything_was_sent_is_noticed) {
  start("echo");
  other->kill(SIGKILL);
  expect_ended();
}

TEST_P(killed_processes, an_exit_without_a_message_is_noticed) {
  start("leave");
  exchange_one();
  expect_ended();
}

TEST_P(killed_processes, a_kill_lets_pending_payloads_go) {
  start("stall");
  exchange_one();
  auto bytes = std::make_shared<std::vector<std::byte>>(64 << 20);
  for (int i = 0; i < 3; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  for (int i = 0; i < 400; ++i) a->send(1, 0, patterned_frame(8, 1));
  for (int i = 0; i < 1000; ++i) a->progress();
  EXPECT_FALSE(a->idle());
  other->kill(SIGKILL);
  expect_ended();
  a->progress();
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST_P(killed_processes, a_kill_in_the_middle_of_a_payload_is_noticed) {
  start("push");
  ASSERT_TRUE(run([&] { return a.received.messages.size() >= 2; }));
  other->kill(SIGKILL);
  expect_ended();
  for (const auto& m : a.received.messages)
    EXPECT_TRUE(has_pattern(m.payloads.at(0).data.get(), m.payloads[0].size, 1));
  a.received.messages.clear();
  a.net.reset();
  EXPECT_EQ(a.pool.out(), 0);
}

TEST_P(killed_processes, one_that_dies_in_the_middle_of_a_copy_holds_nobody_up) {
  start("tear");
  node c;
  job(GetParam()).begin(c, 2);
  c->add_peer(0, a->address());
  a->add_peer(2, c->address());
  c->send(0, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run_until([&] { return !a.received.messages.empty(); }, limit, a, c));
  a.received.messages.clear();
  a->send(1, 0, patterned_frame(8, 1));
  ASSERT_TRUE(run([&] { return !a.received.lost.empty(); }));
  a.received.messages.clear();
  c->send(0, 0, patterned_frame(8, 2));
  EXPECT_TRUE(run_until([&] { return !a.received.messages.empty(); }, limit, a, c));
}

}  // namespace
}  // namespace troupe::transport::test
