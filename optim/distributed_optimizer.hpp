#pragma once

#include "troupe/optim/state/archive_values.hpp"
#include "troupe/optim/client/optimizer_client.hpp"
#include "troupe/optim/shard/snapshot.hpp"

namespace troupe {

/// An optimizer over parameters on any nodes, which it steps where they are: one of libtorch (SGD,
/// Adam, AdamW, Adagrad, RMSprop, LBFGS), one of those here (adadelta, adamax, nadam, rprop), or
/// your own with `optimizer_traits`. There is one shard, a typed actor, on each node that owns
/// some. Gradients come from distributed autograd contexts; `.grad` of a parameter is neither read
/// nor written, and there is nothing to set to zero.
///
/// Sendable, and copied as a handle: trainers that get a copy step the same shards, one after the
/// other, which end when the last copy has gone. Optimizers of their own over the same parameters
/// serialise their steps as well, and keep their states apart. `step_mode` says what this means for
/// backward passes of others. Thread-safe, but for schedulers.
template <class Optimizer>
class distributed_optimizer : public detail::optimizer_front {
public:
  using options = typename optimizer_traits<Optimizer>::options;
  using group = parameter_group<options>;

  /// Of no parameters: to be received into.
  distributed_optimizer() : optimizer_front(detail::kind_of<Optimizer>) {}

  /// `parameters`: leaves of the nodes that own them. The index of one in the list is its name in
  /// errors and saved states. Blocks until all shards are there.
  /// Throws what libtorch's constructor throws on an owner, as remote_error; invalid_argument for
  /// an empty list, a parameter that is there twice or is no leaf, and LBFGS over several nodes;
  /// peer_lost; what the creation of a parameter threw.
  explicit distributed_optimizer(const std::vector<rref<at::Tensor>>& parameters,
                                 const options& defaults, const optimizer_settings& how = {})
      : distributed_optimizer(std::vector<group>{{parameters, std::nullopt}}, defaults, how) {}

  /// The same with groups that have options of their own; indexes go on from group to group.
  explicit distributed_optimizer(const std::vector<group>& groups, const options& defaults,
                                 const optimizer_settings& how = {})
      : optimizer_front(detail::kind_of<Optimizer>, parameters_of(groups),
                        options_of(groups, defaults), detail::values_of(defaults), how,
                        &call_make_shard) {}

  /// Steps all shards at once with the gradients that the context (or the one of that id) has on
  /// their nodes, and returns when all have. A parameter that has none stays as it is, as do all of
  /// a node that has no part in the context. When a shard fails, the others have stepped all the
  /// same.
  /// Throws, once all have ended, the first error in the order of `owners()`: unknown_context when
  /// this node has no part in the context either, or it has ended; invalid_argument, which names
  /// node and parameter, for a gradient of another shape or dtype, or for one that is missing if
  /// the settings say that all are needed (the node alone, if the context has not come to it);
  /// peer_lost, actor_down when an owner is lost; what
  /// libtorch throws, as remote_error. Throws invalid_argument when no parameter has a gradient.
  using optimizer_front::step;

  /// The same without waiting; the context must last until the future is ready.
  using optimizer_front::step_async;

  /// For optimizers that evaluate the loss themselves: `closure` gets a new context, runs forward
  /// and backward pass in it and returns the loss, a scalar. It runs on the calling thread, as
  /// often as the optimizer asks: LBFGS several times in a step, others once. Returns the first
  /// loss. LBFGS looks at all parameters together, so these must be on one node; its shard does
  /// nothing else until the step is over. Throws what the closure throws, and like the other
  /// `step`.
  template <class F>
  requires std::is_invocable_r_v<at::Tensor, F&, const autograd::context&> at::Tensor step(
      F&& closure)
  const {
    return this->step_with([&](const autograd::context& c) -> at::Tensor { return closure(c); });
  }

private:
  friend constexpr auto troupe_fields(const distributed_optimizer*) {
    return std::make_tuple(&distributed_optimizer::shards_, &distributed_optimizer::groups_,
                           &distributed_optimizer::group_of_,
                           &distributed_optimizer::needs_all_gradients_);
  }

  static future<detail::shard_actor> call_make_shard(const node& here, const destination& owner,
                                                     const detail::shard_plan& plan) {
    return here.rpc_async<&detail::make_shard<Optimizer>>(owner, plan);
  }

  static std::vector<std::vector<rref<at::Tensor>>> parameters_of(
      const std::vector<group>& groups) {
    std::vector<std::vector<rref<at::Tensor>>> out;
    for (const auto& one : groups) out.push_back(one.parameters);
    return out;
  }

  static std::vector<detail::archive_values> options_of(const std::vector<group>& groups,
                                                        const options& defaults) {
    std::vector<detail::archive_values> out;
    for (const auto& one : groups) out.push_back(detail::values_of(one.options.value_or(defaults)));
    return out;
  }
};

}  // namespace troupe
