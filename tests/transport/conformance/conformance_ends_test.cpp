// How the end of a process of the same host is reported.

#include <gtest/gtest.h>

#include <string>

#include "tests/transport/conformance/conformance_processes.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace troupe::transport::test
