// Transports between processes, and what happens when one of them dies.

#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "tests/transport/conformance/peer_process.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

class processes : public testing::TestWithParam<tested_backend> {
protected:
  // The time a loss may take: milliseconds, plus what a loaded machine adds.
  static constexpr std::chrono::seconds limit{100};

  void start(const std::string& mode) {
    other = std::make_unique<child>(GetParam(), mode);
    const auto address = other->address();
    job(GetParam()).begin(a, 0);
    a->add_peer(1, address);
    other->send_address(a->address());
  }

  template <class Done>
  bool run(Done done) {
    return run_until(done, limit, a);
  }

  void exchange_one() {
    a->send(1, 0, patterned_frame(8, 1));
    ASSERT_TRUE(run([&] { return !a.received.messages.empty(); }));
    a.received.messages.clear();
  }

  void expect_lost() {
    ASSERT_TRUE(run([&] { return !a.received.lost.empty(); }));
    run_until([] { return false; }, 50ms, a);
    EXPECT_EQ(a.received.lost.size(), 1u);
    EXPECT_EQ(a.received.lost[0].first, 1u);
    EXPECT_THROW(a->send(1, 0, patterned_frame(8, 1)), peer_lost);
    EXPECT_TRUE(run([&] { return a->idle(); }));
  }

  // The end of a process on this host is certain; UCX over TCP may notice its socket first.
  void expect_ended() {
    expect_lost();
    if (GetParam() == tested_backend::ucx_tcp) return;
    EXPECT_EQ(a.received.lost[0].second.kind, loss_kind::ended);
    EXPECT_EQ(a.received.lost[0].second.text, "its process has ended");
  }

  std::unique_ptr<child> other;
  node a;
};
INSTANTIATE_TEST_SUITE_P(each, processes,
                         testing::Values(tested_backend::ucx, tested_backend::ucx_cma,
                                         tested_backend::ucx_tcp, tested_backend::tcp),
                         backend_name);

TEST_P(processes, bytes_go_there_and_back) {
  start("echo");
  for (const std::size_t size :
       {0ul, 1ul, 8192ul, 8193ul, 65536ul, 1ul << 20, (1ul << 20) + 1, 4ul << 20, 64ul << 20}) {
    SCOPED_TRACE(size);
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(size, size));
    a->send(1, 0, patterned_frame(100, 1), std::move(payloads));
    ASSERT_TRUE(run([&] { return !a.received.messages.empty(); }));
    const auto m = std::move(a.received.messages.front());
    a.received.messages.clear();
    ASSERT_EQ(m.payloads.at(0).size, size);
    EXPECT_TRUE(has_pattern(m.payloads[0].data.get(), size, size));
  }
  const auto lanes = a->routes().at(0).lanes;
  if (GetParam() == tested_backend::ucx_tcp || GetParam() == tested_backend::tcp)
    EXPECT_TRUE(lanes.starts_with("tcp/lo")) << lanes;
  else
    EXPECT_EQ(lanes.find("tcp"), lanes.npos) << lanes;
}

TEST_P(processes, an_orderly_end_is_a_loss) {
  start("echo");
  exchange_one();
  other->end_input();
  expect_lost();
  EXPECT_EQ(other->wait(), 0);
  EXPECT_NE(a.received.lost[0].second.text.find("closed"), std::string::npos)
      << a.received.lost[0].second.text;
}

// The first sign of either is that UCX cannot open the peer's memory; it reports that on standard
// output.
class peers_on_one_host : public processes {
protected:
  void SetUp() override { testing::internal::CaptureStdout(); }

  // Too long to go into the queue itself: goes where the peer keeps messages, not yet opened here.
  void send_what_needs_its_memory() {
    try {
      a->send(1, 0, patterned_frame(1500, 1));
    } catch (const peer_lost& e) {
      EXPECT_EQ(std::string(e.what()).find("memory"), std::string::npos) << e.what();
    }
  }

  void expect_loss(loss_kind kind, const std::string& text) {
    expect_lost();
    EXPECT_EQ(a.received.lost[0].second.kind, kind);
    EXPECT_EQ(a.received.lost[0].second.text, text);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  }
};
INSTANTIATE_TEST_SUITE_P(each, peers_on_one_host,
                         testing::Values(tested_backend::ucx, tested_backend::ucx_cma,
                                         tested_backend::tcp),
                         backend_name);

// UCX crashes where a connection is asked for that cannot be made any more, unless there is an
// endpoint for it: a long message is one that asks for it.
TEST_P(peers_on_one_host, that_end_before_any_of_a_long_message_is_read_are_reported_as_ended) {
  start("rush");
  EXPECT_EQ(other->wait(), 0);
  expect_loss(loss_kind::ended, "its process has ended");
}

TEST_P(peers_on_one_host, that_end_before_any_of_a_long_message_is_read_can_be_closed) {
  start("rush");
  EXPECT_EQ(other->wait(), 0);
  a->close_peer(1, true);
  run_until([] { return false; }, 50ms, a);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_P(peers_on_one_host, that_end_before_any_of_a_long_message_is_read_do_not_matter_at_the_end) {
  start("rush");
  EXPECT_EQ(other->wait(), 0);
  a.net.reset();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_P(peers_on_one_host, that_are_killed_are_reported_as_ended) {
  start("echo");
  exchange_one();
  other->kill(SIGKILL);
  send_what_needs_its_memory();
  expect_loss(loss_kind::ended, "its process has ended");
}

TEST_P(peers_on_one_host, that_leave_are_reported_as_having_left) {
  start("echo");
  exchange_one();
  other->end_input();
  EXPECT_EQ(other->wait(), 0);
  send_what_needs_its_memory();
  expect_loss(loss_kind::left, "it closed the connection");
}

TEST_P(processes, a_kill_is_noticed_while_polling) {
  start("echo");
  exchange_one();
  other->kill(SIGKILL);
  expect_ended();
}

TEST_P(processes, a_kill_is_noticed_while_asleep) {
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

TEST_P(processes, a_kill_before_anything_was_sent_is_noticed) {
  start("echo");
  other->kill(SIGKILL);
  expect_ended();
}

TEST_P(processes, an_exit_without_a_message_is_noticed) {
  start("leave");
  exchange_one();
  expect_ended();
}

TEST_P(processes, a_kill_lets_pending_payloads_go) {
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

TEST_P(processes, a_kill_in_the_middle_of_a_payload_is_noticed) {
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

TEST_P(processes, a_stopped_process_is_no_dead_one) {
  start("echo");
  exchange_one();
  other->stop();
  a->send(1, 0, patterned_frame(8, 1));
  run_until([] { return false; }, 300ms, a);
  EXPECT_TRUE(a.received.lost.empty());
  other->kill(SIGKILL);
  expect_ended();
}

TEST_P(processes, a_stopped_process_can_be_closed) {
  start("stall");
  exchange_one();
  other->stop();
  auto bytes = std::make_shared<std::vector<std::byte>>(64 << 20);
  for (int i = 0; i < 3; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back({bytes->data(), bytes->size(), {}, bytes});
    a->send(1, 0, patterned_frame(8, 1), std::move(payloads));
  }
  run_until([] { return false; }, 50ms, a);
  EXPECT_FALSE(a->idle());
  a->close_peer(1, false);
  EXPECT_TRUE(run_until([&] { return a->idle() && bytes.use_count() == 1; }, limit, a));
  EXPECT_TRUE(a.received.lost.empty());
  other->kill(SIGKILL);
}

TEST_P(processes, what_has_not_arrived_is_not_delivered_over_a_network) {
  start("echo");
  exchange_one();
  other->stop();
  a->send(1, 0, patterned_frame(8, 1));
  EXPECT_TRUE(run([&] { return a->idle(); }));
  EXPECT_EQ(a->delivered(),
            GetParam() != tested_backend::ucx_tcp && GetParam() != tested_backend::tcp);
  other->go_on();
  EXPECT_TRUE(run([&] { return a->delivered(); }));
}

TEST_P(processes, the_address_of_a_dead_process_is_refused) {
  other = std::make_unique<child>(GetParam(), "echo");
  const auto address = other->address();
  other->kill(SIGKILL);
  job(GetParam()).begin(a, 0);
  EXPECT_THROW(a->add_peer(1, address), transport_error);
}

TEST_P(processes, one_that_dies_in_the_middle_of_a_copy_holds_nobody_up) {
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
