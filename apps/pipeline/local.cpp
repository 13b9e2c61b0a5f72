#include "troupe/apps/pipeline/local.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>

namespace pipeline {

namespace {

segment whole(const network_shape& shape) { return {shape, 0, make_layers(shape).size()}; }

}  // namespace

local_learner::local_learner(const hyperparameters& chosen)
    : network_(whole({chosen.width, chosen.blocks, chosen.seed})),
      optimizer_(network_.weights(),
                 torch::optim::SGDOptions(chosen.learning_rate).momentum(chosen.momentum)) {}

void local_learner::begin(const digits& batch) {
  auto now = weights();
  for (const auto& one : now) one.requires_grad_();
  const auto scores = network_.forward(batch.images, now);
  under_way_.push_back({std::move(now), at::cross_entropy_loss(scores, batch.labels)});
}

double local_learner::finish() {
  const auto oldest = std::move(under_way_.front());
  under_way_.pop_front();
  oldest.loss.backward();
  const auto& own = network_.weights();
  for (std::size_t i = 0; i < own.size(); ++i) own[i].mutable_grad() = oldest.weights[i].grad();
  optimizer_.step();
  return oldest.loss.item<double>();
}

at::Tensor local_learner::scores(const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  return network_.forward(images, network_.weights());
}

std::vector<at::Tensor> local_learner::weights() {
  std::vector<at::Tensor> out;
  for (const auto& one : network_.weights()) out.push_back(one.detach().clone());
  return out;
}

}  // namespace pipeline
