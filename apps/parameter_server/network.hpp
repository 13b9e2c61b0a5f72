#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "troupe/apps/parameter_server/digits.hpp"

namespace parameter_server {

/// A small convolutional network for digits: two layers of 3 x 3 filters, a maximum over 2 x 2, and
/// two linear layers, with ReLU in between.
class network : public torch::nn::Module {
public:
  /// Draws the weights from `generator`.
  explicit network(const at::Generator& generator);

  /// Images [n, 1, 8, 8] to the logarithms of the probabilities of the digits [n, 10].
  at::Tensor forward(const at::Tensor& images);

  /// The mean loss of `batch`; its gradients replace those of the parameters.
  double compute_gradients(const digits& batch);

private:
  torch::nn::Conv2d first_;
  torch::nn::Conv2d second_;
  torch::nn::Linear third_;
  torch::nn::Linear fourth_;
};

/// The share of `some` that `model` takes for what they are, from 0 to 1.
double accuracy(network& model, const digits& some);

}  // namespace parameter_server
