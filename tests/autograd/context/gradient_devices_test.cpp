// Gradients go by the device maps of the messages whose tensors they are for, the other way. Most
// machines that run this have no GPU: where a gradient was to land is seen by what its receiver
// reports.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <troupe/autograd.hpp>

#include "tests/actors/cluster/nodes_with_devices.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

at::Tensor weight(const char* device = "cpu") {
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
    if (detail::gpu_count() > 0) GTEST_SKIP() << "this is about GPUs that are not there";
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

class gradient_devices_on_a_gpu : public on_networks {
protected:
  void SetUp() override {
    if (detail::gpu_count() == 0) GTEST_SKIP() << "libtorch finds no GPU here";
  }
};
TROUPE_ON_NETWORKS(gradient_devices_on_a_gpu);

TEST_P(gradient_devices_on_a_gpu, are_those_of_the_tensors) {
  rpc_options options;
  options.device_maps = {{"b", {{"cuda:0", "cuda:0"}}}, {"c", {{"cuda:0", "cpu"}}}};
  auto nodes = start({"a", "b", "c"}, options);
  const auto there = weight("cuda:0"), here = weight();
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

}  // namespace
}  // namespace troupe::test
