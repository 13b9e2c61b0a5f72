// A slow path on one host is never silent.

#include <gtest/gtest.h>

#include "tests/transport/conformance/conformance_backend.hpp"

namespace troupe::transport::test {
namespace {

using namespace std::chrono_literals;

// How rank 0 reaches rank 1 when UCX may use `transports` alone; a payload must pass anyway.
route route_with(const std::string& transports) {
  node a;
  node b;
  for (const auto& [n, rank] : {std::pair{&a, 0u}, std::pair{&b, 1u}}) {
    ucx_options options = options_of(tested_backend::ucx, rank);
    options.one_host = false;
    options.trusted_network = true;
    options.settings = {{"TLS", transports}, {"NET_DEVICES", "lo"}};
    n->net = make_ucx_transport(options, n->received, n->pool);
  }
  a->add_peer(1, b->address());
  b->add_peer(0, a->address());
  std::vector<outgoing_payload> payloads;
  payloads.push_back(patterned_payload(3 << 20, 1));
  a->send(1, 0, patterned_frame(1, 1), std::move(payloads));
  EXPECT_TRUE(run_until([&] { return !b.received.messages.empty() && a->idle(); }, 100s, a, b));
  return a->routes().at(0);
}

TEST(ucx_routes, tcp_on_one_host_is_reported) {
  const route r = route_with("tcp");
  EXPECT_EQ(r.lanes, "tcp/lo");
  EXPECT_NE(r.reason.find("shared memory cannot be used"), std::string::npos) << r.reason;
}

TEST(ucx_routes, a_lack_of_cma_is_reported) {
  const route r = route_with("posix");
  EXPECT_EQ(r.lanes.find("cma"), std::string::npos);
  EXPECT_NE(r.reason.find("process_vm_readv"), std::string::npos) << r.reason;
}

TEST(ucx_routes, nothing_is_missing_by_default) {
  EXPECT_EQ(route_with("posix,cma").reason, "same host");
}

}  // namespace
}  // namespace troupe::transport::test
