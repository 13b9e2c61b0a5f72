// Transports between processes that are there, that stop, and that leave.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/transport/conformance/conformance_processes.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(each, processes, every_backend(), backend_name);

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

}  // namespace
}  // namespace troupe::transport::test
