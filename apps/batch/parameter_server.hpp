#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/adam.h>

#include <atomic>

#include "troupe/apps/batch/batch_collector.hpp"
#include "troupe/apps/batch/network.hpp"
#include "troupe/apps/common/module_tensors.hpp"

namespace batch {

using common::tensors;

/// Owns a model and its optimizer (Adam). Thread-safe.
class parameter_server {
public:
  /// The weights follow from `seed`. Trainers are numbered from 0.
  parameter_server(const network_shape& shape, std::uint64_t seed, std::size_t trainers);

  /// The parameters as they are now.
  tensors fetch();

  /// Adds a trainer's gradients to those of the others. When all trainers' are there, the optimizer
  /// makes one step with their mean, and all get the new parameters. These are the model's own
  /// memory: no step changes them before every trainer has them and has called again.
  ///
  /// Throws troupe::invalid_argument for gradients that are not those of the model.
  troupe::task<tensors> update_and_fetch(std::uint32_t trainer, const tensors& gradients);

  /// The same with a step for these gradients alone, at once; a copy of the parameters.
  tensors update_alone_and_fetch(const tensors& gradients);

  /// `trainer` has ended: no step waits for its gradients any more.
  void leave(std::uint32_t trainer) { collector_.leave(trainer); }

  std::int64_t gradients() const noexcept { return gradients_; }
  std::int64_t steps() const noexcept { return steps_; }

private:
  void add(const tensors& gradients);
  void step();

  std::mutex mutex_;  // of the model and the optimizer; taken after that of `collector_`
  network model_;
  torch::optim::Adam optimizer_;
  std::int64_t added_ = 0;  // gradients since the last step
  std::atomic<std::int64_t> gradients_{0};
  std::atomic<std::int64_t> steps_{0};
  batch_collector<tensors> collector_;
};

}  // namespace batch
