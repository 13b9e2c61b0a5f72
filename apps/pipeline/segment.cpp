#include "troupe/apps/pipeline/segment.hpp"

#include <fmt/format.h>

#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/messages/base/error.hpp"

namespace pipeline {

segment::segment(const network_shape& shape, std::size_t first, std::size_t end) {
  auto layers = make_layers(shape);
  if (first >= end || end > layers.size())
    throw troupe::invalid_argument(
        fmt::format("a network of {} layers has no layers {} to {}", layers.size(), first, end));
  for (auto i = first; i < end; ++i) {
    const auto drawn = layers[i]->draw(common::make_generator(shape.seed + i));
    for (const auto& one : drawn) weights_.push_back(one.requires_grad_());
    parts_.push_back({std::move(layers[i]), drawn.size()});
  }
}

at::Tensor segment::forward(at::Tensor x, const std::vector<at::Tensor>& weights) const {
  std::span<const at::Tensor> left(weights);
  for (const auto& part : parts_) {
    x = part.what->forward(x, left.first(part.weights));
    left = left.subspan(part.weights);
  }
  return x;
}

}  // namespace pipeline
