#pragma once

#include <torch/optim/sgd.h>

#include "troupe/apps/pipeline/hyperparameters.hpp"
#include "troupe/apps/pipeline/learner.hpp"
#include "troupe/apps/pipeline/segment.hpp"

namespace pipeline {

/// The whole network in this process, under libtorch's own backward pass and optimizer; a batch
/// stays whole.
class local_learner final : public learner {
public:
  explicit local_learner(const hyperparameters& chosen);

  void begin(const digits& batch) override;
  double finish() override;
  at::Tensor scores(const at::Tensor& images) override;
  std::vector<at::Tensor> weights() override;

private:
  struct flight {
    std::vector<at::Tensor> weights;  // as they were when it began
    at::Tensor loss;
  };

  const segment network_;
  torch::optim::SGD optimizer_;
  std::deque<flight> under_way_;
};

}  // namespace pipeline
