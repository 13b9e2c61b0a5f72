#pragma once

#include <atomic>

#include "troupe/apps/common/module_tensors.hpp"

namespace parameter_server {

using common::tensors;

/// Owns the parameters of a model, which trainers change concurrently and without locks: Hogwild!
/// (Recht, Re, Wright and Niu, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient
/// Descent", NIPS 2011).
///
/// Calls run concurrently on threads of the node. They race only for the numbers of the parameters:
/// of two updates of one number, one may be lost, and a fetch may return some numbers from before
/// an update and some from after it. A single number is never torn, since a float is written whole.
/// Each such error is as large as a gradient times the learning rate, and the next gradients are
/// computed from the result: training continues as with noisier gradients.
class hogwild_server {
public:
  /// `start` becomes the server's own memory.
  hogwild_server(tensors start, double learning_rate);

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

}  // namespace parameter_server
