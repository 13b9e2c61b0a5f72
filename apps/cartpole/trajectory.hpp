#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "troupe/apps/cartpole/policy.hpp"

namespace cartpole {

/// What one observer did in the running episode, with the randomness that decided it.
///
/// Each observer draws from a generator of its own, so that its episodes do not depend on when the
/// others ask. Not thread-safe.
class trajectory {
public:
  explicit trajectory(std::uint64_t seed);

  /// Samples an action for `state` (float32 [4]) from `network`, dropout included, and records it.
  std::int64_t act(policy& network, const at::Tensor& state);

  /// Records the reward of the last action; throws troupe::invalid_argument where there is none.
  void reward(double value);

  /// Forgets the episode; the random stream goes on.
  void clear();

  /// The steps recorded so far, as float32 [steps, 4], float32 [steps, 128] and int64 [steps, 1].
  at::Tensor states() const;
  at::Tensor masks() const;
  at::Tensor actions() const;
  std::span<const double> rewards() const noexcept { return rewards_; }
  std::size_t steps() const noexcept { return actions_.size(); }

private:
  void draw_noise();

  at::Generator generator_;
  std::vector<at::Tensor> noise_;  // masks drawn ahead, one a step
  at::Tensor uniform_;             // and the numbers that pick the action
  std::size_t drawn_ = 0;

  std::vector<float> states_;
  std::vector<at::Tensor> masks_;
  std::vector<std::int64_t> actions_;
  std::vector<double> rewards_;
};

}  // namespace cartpole
