#pragma once

#include "troupe/optim/client/optimizer_client.hpp"
#include "troupe/optim/shard/shard_actor.hpp"
#include "troupe/optim/shard/snapshot.hpp"

namespace troupe {

/// Parameters with options of their own; without these, with the optimizer's.
template <class Options>
struct parameter_group {
  std::vector<rref<at::Tensor>> parameters;
  std::optional<Options> options{};
};

/// An optimizer over parameters on any nodes, which it steps where they are: one of libtorch (SGD,
/// Adam, AdamW, Adagrad, RMSprop, LBFGS), one of Troupe's (adadelta, adamax, nadam, rprop), or your
/// own with `optimizer_traits`. Each node that owns parameters has one shard, a typed actor.
/// Gradients come from distributed autograd contexts; the `.grad` of a parameter is neither read
/// nor written, and there is nothing to set to zero.
///
/// Sendable, and copied as a handle: trainers that get a copy step the same shards, one trainer
/// after the other; the shards end with the last copy. Separate optimizers over the same parameters
/// serialise their steps as well, and keep separate states. `step_mode` says what this means for
/// the backward passes of other trainers. Thread-safe, except for schedulers.
template <class Optimizer>
class distributed_optimizer : public detail::optimizer_client {
public:
  using options = typename optimizer_traits<Optimizer>::options;
  using group = parameter_group<options>;

  /// Without parameters: to be received into.
  distributed_optimizer() : optimizer_client(detail::kind_of<Optimizer>) {}

  /// `parameters` are leaves on the nodes that own them. Errors and saved states name a parameter
  /// by its index in the list. Blocks until all shards exist. Throws what libtorch's constructor
  /// throws on an owner, as remote_error; invalid_argument for an empty list, a parameter that is
  /// listed twice or is no leaf, and LBFGS over several nodes; peer_lost; what the creation of a
  /// parameter threw.
  explicit distributed_optimizer(const std::vector<rref<at::Tensor>>& parameters,
                                 const options& defaults, const optimizer_settings& how = {})
      : distributed_optimizer(std::vector<group>{{parameters, std::nullopt}}, defaults, how) {}

  /// The same with groups that have options of their own; indexes continue from group to group.
  explicit distributed_optimizer(const std::vector<group>& groups, const options& defaults,
                                 const optimizer_settings& how = {})
      : optimizer_client(detail::kind_of<Optimizer>, parameters_of(groups),
                         options_of(groups, defaults), detail::values_of(defaults), how,
                         &call_make_shard) {}

  /// Steps all shards at once with the gradients that the context (or the context of that id) has
  /// on their nodes, and returns when all have replied. A parameter without a gradient stays as it
  /// is, and so do all parameters of a node that the context has not reached. If a shard fails, the
  /// others have still stepped. Throws, once all have replied, the first error in the order of
  /// `owners()`: unknown_context if the context has ended on an owner, or if no parameter has a
  /// gradient and this node does not know the context; invalid_argument, with node and parameter,
  /// for a gradient of another shape or dtype, or, if the settings need all gradients, for a
  /// missing one (with the node alone, if the context has not reached it); peer_lost or actor_down
  /// if an owner is lost; what libtorch throws, as remote_error. Throws invalid_argument if no
  /// parameter has a gradient.
  using optimizer_client::step;

  /// The same without waiting; the context must stay open until the future is ready.
  using optimizer_client::step_async;

  /// For optimizers that evaluate the loss themselves: `closure` gets a new context, runs a forward
  /// and a backward pass in it and returns the loss, a scalar. It runs on the calling thread, as
  /// often as the optimizer asks: several times in a step of LBFGS, once for others. Returns the
  /// first loss. LBFGS needs all parameters together, so they must be on one node, and its shard
  /// does nothing else until the step has ended. Throws what the closure throws, and like the other
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
                           &distributed_optimizer::group_of_);
  }

  static future<detail::shard_actor> call_make_shard(const node& here, const destination& owner,
                                                     const detail::shard_plan& plan) {
    return here.rpc_async<&detail::shard_maker<Optimizer>::make_shard>(owner, plan);
  }

  static std::vector<std::vector<rref<at::Tensor>>> parameters_of(
      const std::vector<group>& groups) {
    std::vector<std::vector<rref<at::Tensor>>> out;
    out.reserve(groups.size());
    for (const auto& one : groups) out.push_back(one.parameters);
    return out;
  }

  static std::vector<detail::archive_values> options_of(const std::vector<group>& groups,
                                                        const options& defaults) {
    std::vector<detail::archive_values> out;
    out.reserve(groups.size());
    for (const auto& one : groups) out.push_back(detail::values_of(one.options.value_or(defaults)));
    return out;
  }
};

}  // namespace troupe
