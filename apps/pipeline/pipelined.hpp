#pragma once

#include <torch/optim/sgd.h>

#include <troupe/autograd.hpp>
#include <troupe/optim.hpp>

#include "troupe/apps/pipeline/cutting.hpp"
#include "troupe/apps/pipeline/hyperparameters.hpp"
#include "troupe/apps/pipeline/learner.hpp"
#include "troupe/apps/pipeline/stage.hpp"

namespace pipeline {

/// Each layer's operations for an image, forward.
std::vector<double> layer_costs(const network_shape& shape);

/// A network with a stage on each of some nodes. A batch goes through them in micro-batches, which
/// travel from stage to stage and not by way of this node.
class pipelined_learner final : public learner {
public:
  /// Throws troupe::invalid_argument when the network has too few layers for so many nodes, and
  /// like a call.
  pipelined_learner(const troupe::node& here, const std::vector<troupe::worker_info>& places,
                    const hyperparameters& chosen, std::int64_t micro_batches);

  /// These throw like a call: troupe::peer_lost names a node that is lost.
  void begin(const digits& batch) override;
  double finish() override;
  at::Tensor scores(const at::Tensor& images) override;
  std::vector<at::Tensor> weights() override;

private:
  using passage = std::vector<troupe::rref<stage_version>>;

  struct flight {
    std::unique_ptr<troupe::autograd::context> context;
    std::vector<troupe::future<at::Tensor>> scores;  // of each micro-batch
    at::Tensor labels;
  };

  std::vector<troupe::rref<at::Tensor>> parameters() const;
  passage versions() const;
  static troupe::future<at::Tensor> send_through(const passage& stages, const at::Tensor& images);

  troupe::node here_;
  const std::int64_t micro_batches_;
  const std::vector<troupe::rref<stage>> stages_;
  const troupe::distributed_optimizer<torch::optim::SGD> optimizer_;
  std::deque<flight> under_way_;
};

}  // namespace pipeline
