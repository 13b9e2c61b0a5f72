#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include "troupe/messages/codec/type_registration.hpp"

namespace batch {

/// The sizes of a network of three linear layers.
struct network_shape {
  std::int64_t inputs;
  std::int64_t width;  ///< of both hidden layers
  std::int64_t outputs;
};
TROUPE_MESSAGE(network_shape, inputs, width, outputs)

/// inputs -> width -> width -> outputs, with ReLU in between.
class network : public torch::nn::Module {
public:
  explicit network(const network_shape& shape);

  /// [n, inputs] to [n, outputs]
  at::Tensor forward(const at::Tensor& x);

private:
  torch::nn::Linear first_;
  torch::nn::Linear second_;
  torch::nn::Linear third_;
};

}  // namespace batch
