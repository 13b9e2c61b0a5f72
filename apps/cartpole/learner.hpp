#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "troupe/apps/cartpole/hyperparameters.hpp"
#include "troupe/apps/cartpole/round.hpp"

namespace cartpole {

class policy;
class trajectory;

/// REINFORCE (Williams, 1992) as the RPC tutorial has it, over the episodes of several observers.
///
/// Actions are sampled without a graph; the log-probabilities are computed again in one batched
/// pass under the same dropout masks, which gives the gradient of the tutorial's step-by-step
/// graph. All randomness follows from the seed. Not thread-safe: the agent's actor owns it.
class learner {
public:
  /// Throws troupe::invalid_argument when there is no observer.
  explicit learner(const hyperparameters& chosen);
  ~learner();

  /// Samples an action for `observer` (from 0) in `state` (float32 [4]).
  std::int64_t select_action(std::size_t observer, const at::Tensor& state);

  /// Records what the last action of `observer` earned.
  void report_reward(std::size_t observer, double reward);

  /// Updates the policy once from the episodes since the last call, one of every observer.
  ///
  /// Throws troupe::invalid_argument when an observer has no step or a reward is missing.
  round_result finish_episode();

  /// Minus the sum over all recorded steps of log-probability times normalised return.
  at::Tensor loss();

  policy& network() noexcept;

  /// What `observer` has done since the last finish_episode().
  const trajectory& episode(std::size_t observer);

private:
  struct parts;  // keeps libtorch's large headers out of this one

  trajectory& of(std::size_t observer);
  at::Tensor returns() const;

  std::unique_ptr<parts> parts_;
};

/// The discounted return of each step of one episode: r[t] + gamma * (return of step t + 1).
std::vector<double> discounted_returns(std::span<const double> rewards, double gamma);

/// `returns` less their mean, over their standard deviation plus the float epsilon.
at::Tensor normalized(const at::Tensor& returns);

/// The log-probabilities [n, 1] of `actions` [n, 1] under `probabilities` [n, 2], clamped away
/// from 0 and 1 by the float epsilon as torch.distributions.Categorical does.
at::Tensor log_probabilities(const at::Tensor& probabilities, const at::Tensor& actions);

}  // namespace cartpole
