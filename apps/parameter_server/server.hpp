#pragma once

#include <atomic>

#include "troupe/apps/common/module_tensors.hpp"

namespace hogwild {

using common::tensors;

/// Owns the parameters of a model, which trainers change all at once and without locks: Hogwild
/// (Niu, Recht, Re and Wright, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient
/// Descent", 2011).
///
/// Calls run side by side on threads of the node. What they race for is the numbers of the
/// parameters alone: two updates of one number may lose one of the two, and who fetches may see
/// some numbers before an update and some after it. A number itself is never torn, since a float is
/// written whole. Each such slip is as large as a gradient times the learning rate, and the next
/// gradients are computed from what came of it, so training goes on as with noisier gradients.
class parameter_server {
public:
  /// `start` becomes the server's own memory.
  parameter_server(tensors start, double learning_rate);

  /// The parameters as they are, in the memory that updates change.
  tensors fetch() const { return parameters_; }

  /// Subtracts `gradients` times the learning rate in place; the parameters after that. Throws
  /// troupe::invalid_argument for gradients that are not those of the model.
  tensors update_and_fetch(const tensors& gradients);

  std::int64_t updates() const noexcept { return updates_; }

private:
  tensors parameters_;
  double learning_rate_;
  std::atomic<std::int64_t> updates_{0};
};

}  // namespace hogwild
