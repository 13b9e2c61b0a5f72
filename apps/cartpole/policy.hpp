#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

namespace cartpole {

/// The tutorial's network: 4 -> 128, dropout 0.6, ReLU, 128 -> 2, softmax.
///
/// The dropout mask is an argument, so that the forward pass that chose an action can be repeated
/// exactly, for many steps at once, when the episode is over.
class policy : public torch::nn::Module {
public:
  static constexpr std::int64_t inputs = 4;
  static constexpr std::int64_t hidden = 128;
  static constexpr std::int64_t actions = 2;
  static constexpr double dropout = 0.6;

  /// Draws the weights from `generator`, distributed as torch::nn::Linear's defaults.
  explicit policy(const at::Generator& generator);

  /// The probabilities [n, 2] of both actions in `states` [n, 4], under `masks` [n, 128].
  at::Tensor forward(const at::Tensor& states, const at::Tensor& masks);

private:
  torch::nn::Linear affine1_;
  torch::nn::Linear affine2_;
};

/// `steps` dropout masks [steps, 128]: 0 with probability 0.6, else 1 / 0.4.
at::Tensor draw_masks(std::int64_t steps, at::Generator generator);

}  // namespace cartpole
