// Devices of nodes on the virtual network, which loses messages and delays them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include "tests/accelerator/accelerator.hpp"
#include "tests/actors/node/job.hpp"
#include "troupe/actors/simulation/simulation.hpp"

namespace troupe::test {
namespace {

at::Tensor fivefold(const at::Tensor& x) { return x * 5; }

TEST(simulated_devices, keep_the_order_of_streams_on_a_network_that_loses_messages) {
  accelerator::install();
  simulation_options options;
  options.seed = 27;
  options.network.links.loss = 0.1;
  options.network.links.reordering = 0.2;
  for (const char* callee : {"worker1", "worker2"})
    options.node.device_maps[callee] = {{"sim:0", "sim:1"}, {"sim:1", "sim:0"}};
  simulation cluster(options);
  const auto nodes = cluster.start(3);
  const accelerator::slow slow(1ms);
  const auto before = accelerator::counted();
  for (int i = 0; i < 50; ++i) {
    auto x = at::full({i % 2 == 0 ? 1'000 : 100'000}, i - 1.0, at::TensorOptions().device("sim:0"));
    x.add_(1);
    const auto y = nodes[0].rpc_sync<&fivefold>(i % 3 == 0 ? "worker1" : "worker2", x);
    EXPECT_EQ(y.device().str(), "sim:0");
    EXPECT_TRUE((y + 1).cpu().equal(at::full(x.sizes(), 5.0 * i + 1))) << i;
  }
  EXPECT_EQ(accelerator::counted().device_synchronizations, before.device_synchronizations);
}

}  // namespace
}  // namespace troupe::test
