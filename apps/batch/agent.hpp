#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

#include "troupe/apps/batch/batch_collector.hpp"
#include "troupe/apps/batch/network.hpp"
#include "troupe/apps/cartpole/numpy_random.hpp"

namespace batch {

/// Owns a policy for CartPole, which it does not train, and acts for many observers. Thread-safe.
class agent {
public:
  /// Weights and draws follow from `seed`. Observers are numbered from 0.
  agent(std::int64_t width, std::uint64_t seed, std::size_t observers);

  /// An action for `observer` in `state` (float32 [4]). When the states of all observers are there,
  /// one forward pass makes the actions of all.
  troupe::task<std::int64_t> select_action(std::uint32_t observer, const at::Tensor& state);

  /// The same with a forward pass for this state alone, at once.
  std::int64_t select_action_alone(std::uint32_t observer, const at::Tensor& state);

  /// `observer` has ended: no pass waits for its states any more.
  void leave(std::uint32_t observer) { collector_.leave(observer); }

  std::int64_t actions() const noexcept { return actions_; }
  std::int64_t passes() const noexcept { return passes_; }

private:
  at::Tensor probabilities(const at::Tensor& states);
  std::int64_t draw(std::uint32_t observer, float left);

  network policy_;
  at::Tensor states_;                           // [observers, 4], of the round
  std::vector<cartpole::numpy_random> random_;  // each observer's
  std::atomic<std::int64_t> actions_{0};
  std::atomic<std::int64_t> passes_{0};
  batch_collector<at::Tensor> collector_;
};

}  // namespace batch
