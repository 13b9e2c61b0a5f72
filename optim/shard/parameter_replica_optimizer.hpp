#pragma once

#include <functional>

#include "troupe/optim/algorithms/kind.hpp"

namespace troupe::detail {

/// An optimizer of libtorch over replicas of parameters: private aliases that share a parameter's
/// memory, but have a `.grad` and a version counter of their own. A step changes neither the
/// parameter's `.grad` nor its version.
///
/// This relies on what libtorch 2.11 does, which tests/optim/shard/version_counters_test.cpp
/// checks: `detach()` and `tensor_data()` share the version counter, so that a write through them
/// makes backward passes throw that have saved the parameter; `variable_data()` (which is `data()`)
/// has a new counter, so that such passes use the new weights and report nothing; `set_data` leaves
/// the counter as it is, and the pass has saved the parameter itself, so that it reports nothing
/// either. libtorch's SGD writes through `data()`, its Adam does not: over the parameters
/// themselves, a step of the one would go unnoticed and a step of the other would not.
///
/// One thread at a time.
class parameter_replica_optimizer {
public:
  /// `group_of` has the group of each of the `parameters`. Throws what the optimizer's constructor
  /// throws.
  parameter_replica_optimizer(
      const optimizer_kind& kind, const std::vector<at::Tensor>& parameters,
      const std::vector<std::uint32_t>& group_of,
      const std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>& groups,
      const torch::optim::OptimizerOptions& defaults);

  torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  const torch::optim::Optimizer& optimizer() const noexcept { return *optimizer_; }

  /// Of the parameter at that index of `parameters`; null: none yet.
  const torch::optim::OptimizerParamState* state(std::size_t i) const;
  /// Null removes it.
  void set_state(std::size_t i, std::unique_ptr<torch::optim::OptimizerParamState> state);

  /// Takes over the options of all groups of `from`, and the states of the parameters that have a
  /// gradient. The tensors of the states are shared.
  void copy_settings_and_states(const parameter_replica_optimizer& from,
                                const std::vector<at::Tensor>& gradients);

  /// A step with these gradients, one for each parameter, undefined where there is none. A replica
  /// first follows its parameter to other memory (`set_data`).
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

  /// The same for an optimizer that evaluates the loss itself: `evaluate` returns the loss and
  /// fills its argument with the gradients. Returns the first loss.
  using evaluation = std::function<at::Tensor(std::vector<at::Tensor>& gradients)>;
  at::Tensor step(const std::vector<at::Tensor>& parameters, const evaluation& evaluate);

private:
  class scoped_gradients;
  void follow(const std::vector<at::Tensor>& parameters);

  std::vector<at::Tensor> replicas_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace troupe::detail
