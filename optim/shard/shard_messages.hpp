#pragma once

#include "troupe/actors/node/node.hpp"
#include "troupe/optim/shard/optimizer_settings.hpp"
#include "troupe/optim/state/optimizer_state.hpp"

// What a distributed optimizer and its shards send one another.
namespace troupe::detail {

class closure_evaluator;
class shard;

/// A parameter of a shard: its place in the optimizer's list, and its group.
struct parameter_place {
  std::uint64_t index = 0;
  std::uint32_t group = 0;
  rref<at::Tensor> parameter;
};
TROUPE_MESSAGE_EXTERN(parameter_place, index, group, parameter)

/// What a shard is made from. All groups are listed, also those without a parameter here.
struct shard_plan {
  std::vector<parameter_place> parameters;
  archive_values defaults;
  std::vector<archive_values> groups;
  optimizer_settings how;
};
TROUPE_MESSAGE_EXTERN(shard_plan, parameters, defaults, groups, how)

struct rate_of_group {
  std::uint32_t group = 0;
  double rate = 0;

  friend bool operator==(const rate_of_group&, const rate_of_group&) = default;
};
TROUPE_MESSAGE_EXTERN(rate_of_group, group, rate)

/// New learning rates of some groups; the others keep theirs.
struct learning_rates {
  std::uint64_t from = 0;    ///< who has set them: unique in the job
  std::uint64_t number = 0;  ///< a shard ignores a rate that came after a later one `from` there
  std::vector<rate_of_group> changed;
};
TROUPE_MESSAGE_EXTERN(learning_rates, from, number, changed)

/// Steps with the gradients that the context has on the shard's node, at `rates` from this step on.
/// The reply is the number of parameters that had gradients.
struct take_step {
  std::uint64_t context = 0;
  learning_rates rates;
};
TROUPE_MESSAGE_EXTERN(take_step, context, rates)

/// Steps an optimizer that asks `evaluator` for the loss and its gradients. The reply is the first
/// loss.
struct take_closure_step {
  rref<closure_evaluator> evaluator;
  learning_rates rates;
};
TROUPE_MESSAGE_EXTERN(take_closure_step, evaluator, rates)

/// Sets learning rates.
struct set_rates {
  learning_rates rates;
};
TROUPE_MESSAGE_EXTERN(set_rates, rates)

/// Asks for the shard's options and states.
struct get_state {};
TROUPE_MESSAGE_EXTERN(get_state)

/// Replaces the shard's options and states. Nothing is changed unless all of them fit.
struct put_state {
  shard_state state;
};
TROUPE_MESSAGE_EXTERN(put_state, state)

/// Asks for the shard itself, so that its own node can step it without a message.
struct get_shard {};
TROUPE_LOCAL_MESSAGE(get_shard)

struct found_shard {
  std::weak_ptr<shard> here;
};
TROUPE_LOCAL_MESSAGE(found_shard)

/// A step that ran outside of the actor has ended.
struct step_ended {
  std::uint64_t step = 0;
  std::uint64_t stepped = 0;
  caf::error failure;
};
TROUPE_LOCAL_MESSAGE(step_ended)

/// The part of a distributed optimizer on one node.
using shard_actor = actor<answers<take_step, std::uint64_t>, answers<take_closure_step, at::Tensor>,
                          answers<set_rates>, answers<get_state, shard_state>, answers<put_state>,
                          answers<get_shard, found_shard>, accepts<step_ended>>;

/// A shard as the optimizer knows it.
struct shard_handle {
  shard_actor actor;
  std::string node;
  std::vector<std::uint64_t> parameters;  ///< indexes in the optimizer's list, in the shard's order
};
TROUPE_MESSAGE_EXTERN(shard_handle, actor, node, parameters)

}  // namespace troupe::detail
