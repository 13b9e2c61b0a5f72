// libtorch's version counters behave as the shards' replicas need it
// (optim/shard/parameter_replica_optimizer.hpp).

#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>

namespace troupe::test {
namespace {

// The gradient of x in sum(w * x), where w, which is 2, is made 3 before the backward pass; 0 when
// that throws.
double gradient_after(const std::function<void(at::Tensor&)>& write) {
  auto w = torch::full({1}, 2.0, torch::requires_grad());
  const auto x = torch::full({1}, 5.0, torch::requires_grad());
  const auto y = (w * x).sum();
  write(w);
  EXPECT_EQ(w.item<double>(), 3);
  try {
    y.backward();
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("modified by an inplace operation"), std::string::npos);
    return 0;
  }
  return x.grad().item<double>();
}

void add_one(at::Tensor alias) {
  const at::NoGradGuard off;
  alias.add_(1);
}

TEST(version_counters, are_as_the_shards_expect) {
  EXPECT_EQ(gradient_after([](at::Tensor& w) { add_one(w.detach()); }), 0);
  EXPECT_EQ(gradient_after([](at::Tensor& w) { add_one(w.tensor_data()); }), 0);
  EXPECT_EQ(gradient_after([](at::Tensor& w) { add_one(w.variable_data()); }), 3);
  EXPECT_EQ(gradient_after([](at::Tensor& w) { add_one(w.data()); }), 3);
  EXPECT_EQ(gradient_after([](at::Tensor& w) { w.set_data(w.data() + 1); }), 3);
  EXPECT_EQ(gradient_after([](at::Tensor& w) {
              add_one(w.variable_data());
              w.unsafeGetTensorImpl()->bump_version();
            }),
            0);
}

template <class Optimizer>
double after_a_step() {
  return gradient_after([](at::Tensor& w) {
    Optimizer optimizer({w}, 1.0);
    w.mutable_grad() = torch::full({1}, -1.0);
    optimizer.step();
  });
}

TEST(version_counters, libtorch_s_own_optimizers_differ) {
  EXPECT_EQ(after_a_step<torch::optim::SGD>(), 3);
  EXPECT_EQ(after_a_step<torch::optim::Adam>(), 0);
}

}  // namespace
}  // namespace troupe::test
