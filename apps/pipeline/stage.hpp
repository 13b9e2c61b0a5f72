#pragma once

#include <mutex>
#include <troupe/troupe.hpp>

#include "troupe/apps/pipeline/segment.hpp"

namespace pipeline {

/// A stage with the weights that it had when this was made, whatever has become of them since.
class stage_version {
public:
  stage_version(std::shared_ptr<const segment> layers, std::vector<at::Tensor> weights,
                std::shared_ptr<std::mutex> turn)
      : layers_(std::move(layers)), weights_(std::move(weights)), turn_(std::move(turn)) {}

  /// One call at a time computes on a stage: the next stage gets the first micro-batch when that is
  /// done, and not when all are.
  at::Tensor forward(const at::Tensor& x) const;

private:
  std::shared_ptr<const segment> layers_;
  std::vector<at::Tensor> weights_;
  std::shared_ptr<std::mutex> turn_;
};

/// Layers of a network on the node where they live.
class stage {
public:
  stage(const network_shape& shape, std::uint64_t first, std::uint64_t end)
      : layers_(std::make_shared<segment>(shape, first, end)) {}

  /// In the order of the layers.
  std::vector<troupe::rref<at::Tensor>> parameters() const;

  /// As it is now.
  troupe::rref<stage_version> version() const;

  /// Copies of its weights.
  std::vector<at::Tensor> weights() const;

private:
  std::shared_ptr<const segment> layers_;
  std::shared_ptr<std::mutex> turn_ = std::make_shared<std::mutex>();
};

}  // namespace pipeline
