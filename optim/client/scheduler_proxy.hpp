#pragma once

#include <torch/optim/optimizer.h>

#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

/// What libtorch's schedulers get in place of a distributed optimizer: an optimizer without
/// parameters, whose groups have the options of the distributed one. Schedulers set its learning
/// rates.
class scheduler_proxy final : public torch::optim::Optimizer {
public:
  using torch::optim::Optimizer::Optimizer;
  /// Throws invalid_argument.
  at::Tensor step(LossClosure = nullptr) override {
    throw invalid_argument(
        "a scheduler's optimizer has no parameters: step the distributed optimizer");
  }
};

}  // namespace troupe::detail
