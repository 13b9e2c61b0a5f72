#include "troupe/apps/batch/network.hpp"

namespace batch {

network::network(const network_shape& shape)
    : first_(register_module("first", torch::nn::Linear(shape.inputs, shape.width))),
      second_(register_module("second", torch::nn::Linear(shape.width, shape.width))),
      third_(register_module("third", torch::nn::Linear(shape.width, shape.outputs))) {}

at::Tensor network::forward(const at::Tensor& x) {
  return third_(second_(first_(x).relu()).relu());
}

}  // namespace batch
