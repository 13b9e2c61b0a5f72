#include "troupe/apps/common/initial_weights.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <cmath>

namespace common {

namespace {

// The layers' kaiming_uniform_(a = sqrt(5)) comes to this bound for the weight, too.
template <class Layer>
void draw(Layer& layer, const at::Generator& generator) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(layer.weight[0].numel()));
  layer.weight.uniform_(-bound, bound, generator);
  if (layer.bias.defined()) layer.bias.uniform_(-bound, bound, generator);
}

}  // namespace

at::Generator make_generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

void draw_weights(torch::nn::Module& network, const at::Generator& generator) {
  const at::NoGradGuard no_grad;
  for (const auto& part : network.modules(false)) {
    if (auto* linear = part->as<torch::nn::LinearImpl>()) draw(*linear, generator);
    if (auto* convolution = part->as<torch::nn::Conv2dImpl>()) draw(*convolution, generator);
  }
}

}  // namespace common
