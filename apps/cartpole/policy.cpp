#include "apps/cartpole/policy.hpp"

#include <ATen/ops/empty.h>

#include <cmath>

namespace cartpole {

namespace {

// What torch::nn::Linear's reset_parameters() does: its kaiming_uniform_(a = sqrt(5)) comes to
// this bound for the weight, too.
void initialize(torch::nn::Linear& layer, const at::Generator& generator) {
  const at::NoGradGuard no_grad;
  const double bound = 1.0 / std::sqrt(static_cast<double>(layer->options.in_features()));
  layer->weight.uniform_(-bound, bound, generator);
  layer->bias.uniform_(-bound, bound, generator);
}

}  // namespace

policy::policy(at::Generator generator)
    : affine1_(register_module("affine1", torch::nn::Linear(inputs, hidden))),
      affine2_(register_module("affine2", torch::nn::Linear(hidden, actions))) {
  initialize(affine1_, generator);
  initialize(affine2_, generator);
}

at::Tensor policy::forward(const at::Tensor& states, const at::Tensor& masks) {
  return affine2_(affine1_(states).mul(masks).relu()).softmax(1);
}

at::Tensor draw_masks(std::int64_t steps, at::Generator generator) {
  constexpr double keep = 1.0 - policy::dropout;
  return at::empty({steps, policy::hidden}).bernoulli_(keep, std::move(generator)).div_(keep);
}

}  // namespace cartpole
