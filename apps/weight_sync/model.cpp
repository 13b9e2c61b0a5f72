#include "troupe/apps/weight_sync/model.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tanh.h>

#include <cmath>

#include "troupe/apps/common/initial_weights.hpp"

namespace weight_sync {

named_weights make_weights(const network_shape& shape, std::uint64_t seed) {
  auto generator = common::make_generator(seed);
  named_weights out;
  for (std::int64_t i = 0; i < shape.layers; ++i)
    out.emplace_back("layer" + std::to_string(i),
                     at::randn({shape.width, shape.width}, generator)
                         .div_(std::sqrt(static_cast<double>(shape.width))));
  return out;
}

at::Tensor forward(const named_weights& weights, at::Tensor x) {
  for (const auto& [name, weight] : weights)
    x = x + at::tanh(at::matmul(x, weight)) / static_cast<double>(weights.size());
  return x;
}

std::int64_t digest(const named_weights& weights) {
  const at::NoGradGuard no_grad;
  std::int64_t sum = 0;
  for (const auto& [name, weight] : weights)
    sum += weight.detach()
               .view(at::kInt)
               .flatten()
               .slice(0, 0, weight.numel(), 1009)
               .to(at::kLong)
               .sum()
               .item<std::int64_t>();
  return sum;
}

}  // namespace weight_sync
