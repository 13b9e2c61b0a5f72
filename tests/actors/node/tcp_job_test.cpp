// A job over TCP, whose ends prove themselves: no network has to be trusted for it.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/actors/node/job.hpp"
#include "tests/actors/node/rank_functions.hpp"

namespace troupe::test {
namespace {

class tcp_job : public testing::TestWithParam<stream_protection> {};
INSTANTIATE_TEST_SUITE_P(with, tcp_job,
                         testing::Values(stream_protection::off, stream_protection::authenticate,
                                         stream_protection::encrypt),
                         [](const auto& info) {
                           return info.param == stream_protection::off            ? "off"
                                  : info.param == stream_protection::authenticate ? "authenticate"
                                                                                  : "encrypt";
                         });

at::Tensor doubled(at::Tensor x) { return x * 2; }

TEST_P(tcp_job, calls_functions_and_sends_tensors) {
  rpc_options options;
  options.encryption = GetParam();
  auto nodes = make_nodes(network::tcp, {"a", "b", "c"}, options);
  for (const auto& from : nodes)
    for (const auto* to : {"a", "b", "c"}) EXPECT_EQ(from.rpc_sync<&plus_one>(to, 41), 42);
  for (const std::int64_t size : {0, 10, 10'000, 1'000'000}) {
    const auto x = at::rand({size});
    EXPECT_TRUE(at::equal(nodes[0].rpc_sync<&doubled>("c", x), x * 2));
  }
  for (const auto& one : nodes[0].routes()) {
    EXPECT_EQ(one.backend, "tcp");
    if (one.peer > 0) {
      EXPECT_THAT(one.reason, testing::HasSubstr("prove that they have the job's secret"));
    }
  }
  shut_down(nodes);
}

TEST(tcp_job_ends, a_node_that_goes_is_noticed) {
  auto nodes = make_nodes(network::tcp, {"a", "b"});
  EXPECT_EQ(nodes[0].rpc_sync<&plus_one>("b", 1), 2);
  nodes[1].shutdown(false);
  EXPECT_THROW(nodes[0].rpc_sync<&plus_one>("b", 1, timeout(time_limit)), peer_lost);
  nodes[0].shutdown(false);
}

// Neither has ever called the other: they are not connected.
TEST(tcp_job_ends, a_node_that_goes_is_noticed_by_those_who_never_called_it) {
  auto nodes = make_nodes(network::tcp, {"a", "b", "c"});
  nodes[2].shutdown(false);
  EXPECT_THROW(nodes[1].rpc_sync<&plus_one>("c", 1, timeout(time_limit)), peer_lost);
  nodes[1].shutdown(false);
  nodes[0].shutdown(false);
}

TEST(tcp_job_options, are_checked_for_all_ranks) {
  rpc_options options;
  options.ports = "a few";
  EXPECT_THAT(fault_of<error>([&] {
                make_nodes(network::tcp, {"a", "b"}, options);
              }).text,
              testing::HasSubstr("rpc_options::ports is 'a few'"));
}

}  // namespace
}  // namespace troupe::test
