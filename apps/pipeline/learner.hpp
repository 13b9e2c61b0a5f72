#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "troupe/apps/parameter_server/batches.hpp"

namespace pipeline {

using parameter_server::batches;
using parameter_server::digits;

/// A network that learns from batches. Several may be under way; they end in the order in which
/// they have begun. A batch's gradients are those of the weights at its beginning, and go to the
/// weights that are there at its end: later by one step for each batch that has ended in between.
class learner {
public:
  learner() = default;
  learner(const learner&) = delete;
  learner& operator=(const learner&) = delete;
  virtual ~learner() = default;

  /// Begins a forward pass with the weights as they are now.
  virtual void begin(const digits& batch) = 0;

  /// Of the oldest batch under way: the rest of the forward pass, the backward pass and the step.
  /// Returns its mean loss.
  virtual double finish() = 0;

  /// [n, 10], with the weights as they are now.
  virtual at::Tensor scores(const at::Tensor& images) = 0;

  /// Copies of the weights, in the order of the layers.
  virtual std::vector<at::Tensor> weights() = 0;
};

/// Learns from `steps` batches of which `in_flight` are under way at a time. So the gradients of
/// batch i are those of the weights after max(0, i + 1 - in_flight) steps, wherever the network is:
/// with one, that is gradient descent; with two, the rule of PipeDream-2BW (Narayanan et al.,
/// 2021). Returns the losses; `watch` gets each of them with the size of its batch.
std::vector<float> learn(learner& who, batches& dealt, std::int64_t steps, std::size_t in_flight,
                         const std::function<void(double loss, std::int64_t images)>& watch);

/// The share of `some` that it takes for what they are, from 0 to 1.
double accuracy(learner& who, const digits& some);

}  // namespace pipeline
