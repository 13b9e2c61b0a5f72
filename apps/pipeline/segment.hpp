#pragma once

#include "troupe/apps/pipeline/layers.hpp"

namespace pipeline {

/// Consecutive layers of a network, and their weights.
class segment {
public:
  /// Layers `first` to `end - 1`. Each draws its weights from a generator of its own, so that they
  /// do not depend on where the network is cut. Throws troupe::invalid_argument where there is no
  /// such layer.
  segment(const network_shape& shape, std::size_t first, std::size_t end);

  /// Leaves, in the order of the layers.
  const std::vector<at::Tensor>& weights() const noexcept { return weights_; }

  /// With its own weights, or others in their place.
  at::Tensor forward(at::Tensor x, const std::vector<at::Tensor>& weights) const;

private:
  struct part {
    std::unique_ptr<const layer> what;
    std::size_t weights;  // how many
  };
  std::vector<part> parts_;
  std::vector<at::Tensor> weights_;
};

}  // namespace pipeline
