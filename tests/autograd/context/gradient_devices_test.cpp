// Gradients go by the device maps of the messages whose tensors they are for, the other way. Most
// machines that run this have no GPU: where a gradient was to land is seen by what its receiver
// reports.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <troupe/autograd.hpp>

#include "tests/actors/cluster/nodes_with_devices.hpp"
#include "tests/actors/cluster/on_devices.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

at::Tensor weight(const std::string& device = "cpu") {
  return at::full({3}, 2.0, at::TensorOptions().device(device)).requires_grad_(true);
}

at::Tensor made_here(int) { return 2 * weight(); }

// A pass from here over what the caller has sent.
void sum_and_back(std::uint64_t context, const std::vector<at::Tensor>& xs) {
  auto sum = at::zeros({});
  for (const auto& x : xs) sum = sum + (x * x).sum().cpu();
  autograd::backward(this_node(), context, {sum});
}

class gradient_devices : public nodes_with_devices {
protected:
  void SetUp() override {
    if (detail::device_count(memory_place::kind::cuda) > 0)
      GTEST_SKIP() << "this is about GPUs that are not there";
  }
};

TEST_F(gradient_devices, of_arguments_are_those_that_they_came_from) {
  // In the call nothing is on cuda:0; gradients come from the host memory to which that leads.
  auto nodes = start({{"a", 1, {{"b", {{"cuda:0", "cpu"}}}}}, {"b"}, {"c"}});
  const auto x = weight();
  {
    const autograd::context context(nodes[0]);
    try {
      nodes[0].rpc_sync<&sum_and_back>("b", context.id(), std::vector{x});
      FAIL() << "a has that GPU";
    } catch (const error& e) {
      EXPECT_THAT(e.what(), HasSubstr("should be on cuda:0"));
    }
  }
  {  // no map leads there
    const autograd::context context(nodes[0]);
    nodes[0].rpc_sync<&sum_and_back>("c", context.id(), std::vector{x});
    EXPECT_TRUE(context.get_gradients()[x].equal(2 * x));
  }
  shut_down(nodes);
}

TEST_F(gradient_devices, of_answers_are_those_that_they_came_from) {
  auto nodes =
      start({{"a", 1, {{"b", {{"cpu", "cuda:1"}}}}}, {"b", 2, {{"a", {{"cuda:0", "cpu"}}}}}});
  {
    const autograd::context context(nodes[0]);
    const auto y = nodes[0].rpc_sync<&made_here>("b", 1);
    try {
      context.backward({y.sum()});
      FAIL() << "b has that GPU";
    } catch (const error& e) {
      EXPECT_THAT(e.what(), HasSubstr("should be on cuda:1"));
    }
  }
  shut_down(nodes);
}

at::Tensor cube(const at::Tensor& x) { return x * x * x; }

// What they are sent by has gone back itself.
TEST_F(gradient_devices, of_gradients_go_forth_again) {
  auto nodes = start({{"a"}, {"b", 1, {{"a", {{"cuda:0", "cpu"}}}}}});
  {
    const autograd::context context(nodes[0]);
    const auto x = weight();
    context.backward({nodes[0].rpc_sync<&cube>("b", x).sum()}, {.create_graph = true});
    const auto first = context.get_gradients()[x];
    EXPECT_TRUE(first.equal(3 * x * x));
    context.backward({first.sum()});
    EXPECT_TRUE(context.get_gradients()[x].equal(3 * x * x + 6 * x));
  }
  shut_down(nodes);
}

// libtorch's engine counts the devices at the first backward pass of the process.
class devices_first : public testing::Environment {
  void SetUp() override { accelerator::install(); }
};
[[maybe_unused]] const auto* const before_all_passes =
    testing::AddGlobalTestEnvironment(new devices_first);

class gradient_devices_on_a_device : public on_devices {};
TROUPE_ON_DEVICES(gradient_devices_on_a_device);

TEST_P(gradient_devices_on_a_device, are_those_of_the_tensors) {
  rpc_options options;
  options.device_maps = {{"b", {{device(0), device(1)}}}, {"c", {{device(0), "cpu"}}}};
  auto nodes = start({"a", "b", "c"}, options);
  const auto there = weight(device(0)), here = weight();
  for (const char* to : {"a", "b", "c"}) {
    const autograd::context context(nodes[0]);
    nodes[0].rpc_sync<&sum_and_back>(to, context.id(), std::vector{there, here});
    const auto all = context.get_gradients();
    for (const auto& x : {there, here}) {
      EXPECT_EQ(all[x].device(), x.device()) << to;
      EXPECT_TRUE(all[x].equal(2 * x)) << to;
    }
  }
  shut_down(nodes);
}

// From the host to a device and back, behind kernels that take long.
TEST_P(gradient_devices_on_a_device, wait_for_streams_on_the_way) {
  rpc_options options;
  options.device_maps = {{"b", {{device(0), device(1)}}}, {"c", {{"cpu", device(0)}}}};
  auto nodes = start({"a", "b", "c"}, options);
  std::optional<accelerator::slow> slow;
  if (simulated()) slow.emplace(std::chrono::milliseconds(2));
  const auto before = accelerator::counted();
  for (int i = 0; i < 5; ++i) {
    const autograd::context context(nodes[0]);
    const auto there = weight(device(0)), here = weight();
    const auto x = nodes[0].rpc_sync<&cube>("b", there * (i + 1)).cpu();
    const auto y = nodes[0].rpc_sync<&cube>("c", here * (i + 1));
    EXPECT_TRUE(y.device().is_cpu());
    context.backward({(x + y).sum()});
    const auto expected = at::full({3}, 3.0 * (i + 1) * (i + 1) * (i + 1) * 4);
    const auto all = context.get_gradients();
    EXPECT_EQ(all[there].device().str(), device(0));
    EXPECT_TRUE(all[there].cpu().equal(expected)) << i << ": " << all[there].cpu();
    EXPECT_TRUE(all[here].equal(expected)) << i;
  }
  EXPECT_EQ(accelerator::counted().device_synchronizations, before.device_synchronizations);
  shut_down(nodes);
}

// The thread that begins a pass serves its steps, on the streams that the program has set.
TEST_P(gradient_devices_on_a_device, come_in_order_to_streams_of_the_program) {
  rpc_options options;
  options.device_maps = {{"b", {{device(0), device(1)}}}};
  auto nodes = start({"a", "b"}, options);
  std::optional<accelerator::slow> slow;
  if (simulated()) slow.emplace(std::chrono::milliseconds(2));
  const c10::impl::VirtualGuardImpl guard(c10::Device(device(0)).type());
  const c10::StreamGuard current(guard.getStreamFromGlobalPool(c10::Device(device(0))));
  for (int i = 0; i < 10; ++i) {
    const autograd::context context(nodes[0]);
    const auto x = weight(device(0));
    const auto y = nodes[0].rpc_sync<&cube>("b", x * (i + 1));
    context.backward({y.sum()});
    const auto gradient = context.get_gradients()[x] + 0;
    EXPECT_TRUE(gradient.cpu().equal(at::full({3}, 12.0 * (i + 1) * (i + 1) * (i + 1)))) << i;
  }
  shut_down(nodes);
}

}  // namespace
}  // namespace troupe::test
