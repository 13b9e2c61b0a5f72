#pragma once

#include "troupe/optim/algorithms/kind.hpp"

namespace troupe::detail {

/// An optimizer of libtorch over private aliases of parameters: tensors that share a parameter's
/// memory, but have a `.grad` and a version counter of their own. A step touches neither the
/// parameter's `.grad` nor its version.
///
/// What libtorch 2.11 does, checked by tests/optim/aliases_test.cpp: `detach()` and `tensor_data()`
/// share the version counter, so that a write through them makes backward passes throw that have
/// saved the parameter; `variable_data()` (which is `data()`) has a new one, so that they use the
/// new weights in silence; `set_data` leaves the counter, and what was saved is the parameter
/// itself, so that it is silent too. libtorch's SGD writes through `data()`, its Adam does not: on
/// the parameters themselves one would be silent, and the other not.
///
/// One thread at a time.
class lane {
public:
  /// `parameters` and the group of each. Throws what the optimizer's constructor throws.
  lane(const optimizer_kind& kind, const std::vector<at::Tensor>& parameters,
       const std::vector<std::uint32_t>& group_of,
       const std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>& groups,
       const torch::optim::OptimizerOptions& defaults);

  torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }
  const torch::optim::Optimizer& optimizer() const noexcept { return *optimizer_; }

  /// By the parameter's place; null: none yet.
  const torch::optim::OptimizerParamState* state(std::size_t i) const;
  /// Null: forgets it.
  void set_state(std::size_t i, std::unique_ptr<torch::optim::OptimizerParamState> state);

  /// The options of all groups and, of the parameters with a gradient, the states as `from` has
  /// them; their tensors are shared.
  void be_like(const lane& from, const std::vector<at::Tensor>& gradients);

  /// A step with these gradients, one per parameter, undefined where there is none. An alias whose
  /// parameter has got other memory (`set_data`) follows it first.
  void step(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients);

  /// The same, where the optimizer asks for the loss itself: `evaluate` returns it, and puts the
  /// gradients into its argument.
  using evaluation = std::function<at::Tensor(std::vector<at::Tensor>& gradients)>;
  at::Tensor step(const std::vector<at::Tensor>& parameters, const evaluation& evaluate);

private:
  class gradients_in_place;
  void follow(const std::vector<at::Tensor>& parameters);

  std::vector<at::Tensor> aliases_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace troupe::detail
