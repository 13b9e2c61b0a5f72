#include "troupe/apps/cartpole/policy.hpp"

#include <ATen/ops/empty.h>

#include "troupe/apps/common/initial_weights.hpp"

namespace cartpole {

policy::policy(const at::Generator& generator)
    : affine1_(register_module("affine1", torch::nn::Linear(inputs, hidden))),
      affine2_(register_module("affine2", torch::nn::Linear(hidden, actions))) {
  common::draw_weights(*this, generator);
}

at::Tensor policy::forward(const at::Tensor& states, const at::Tensor& masks) {
  return affine2_(affine1_(states).mul(masks).relu()).softmax(1);
}

at::Tensor draw_masks(std::int64_t steps, at::Generator generator) {
  constexpr double keep = 1.0 - policy::dropout;
  return at::empty({steps, policy::hidden}).bernoulli_(keep, std::move(generator)).div_(keep);
}

}  // namespace cartpole
