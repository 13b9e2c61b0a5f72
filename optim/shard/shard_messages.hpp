#pragma once

#include "troupe/actors/node/node.hpp"
#include "troupe/optim/state/archive_values.hpp"
#include "troupe/optim/algorithms/options.hpp"

namespace troupe::detail {

class closure_desk;

/// A parameter of a shard: its place in the optimizer's list, and its group.
struct parameter_place {
  std::uint64_t index = 0;
  std::uint32_t group = 0;
  rref<at::Tensor> parameter;
};
TROUPE_MESSAGE_EXTERN(parameter_place, index, group, parameter)

/// What a shard is made from. A group may have no parameter here.
struct shard_plan {
  std::vector<parameter_place> parameters;
  archive_values defaults;
  std::vector<archive_values> groups;
  optimizer_settings how;
};
TROUPE_MESSAGE_EXTERN(shard_plan, parameters, defaults, groups, how)

/// Step with the gradients that the context has here. `rates`: of the groups, first; empty: as they
/// are. Answered with how many parameters had gradients.
struct take_step {
  std::uint64_t context = 0;
  std::vector<double> rates;
};
TROUPE_MESSAGE_EXTERN(take_step, context, rates)

/// Step, and ask for the loss and its gradients there. Answered with the first loss.
struct take_closure_step {
  rref<closure_desk> desk;
  std::vector<double> rates;
};
TROUPE_MESSAGE_EXTERN(take_closure_step, desk, rates)

/// The groups' learning rates from now on.
struct set_rates {
  std::vector<double> rates;
};
TROUPE_MESSAGE_EXTERN(set_rates, rates)

/// What an optimizer knows of one parameter, if anything yet.
struct parameter_state {
  std::uint64_t index = 0;
  std::vector<std::int64_t> shape;  ///< the parameter's
  std::string dtype;
  std::optional<archive_values> state;
};
TROUPE_MESSAGE_EXTERN(parameter_state, index, shape, dtype, state)

/// What a shard knows, all of it.
struct shard_state {
  std::vector<archive_values> groups;  ///< options
  std::vector<parameter_state> parameters;
};
TROUPE_MESSAGE_EXTERN(shard_state, groups, parameters)

struct get_state {};
TROUPE_MESSAGE_EXTERN(get_state)

/// Goes on from that state. Nothing is changed unless all of it fits.
struct put_state {
  shard_state state;
};
TROUPE_MESSAGE_EXTERN(put_state, state)

/// Asks for the shard itself, so that steps of its own node need no message.
struct get_shard {};
TROUPE_LOCAL_MESSAGE(get_shard)

class shard;

struct found_shard {
  std::weak_ptr<shard> here;
};
TROUPE_LOCAL_MESSAGE(found_shard)

/// A step has ended that ran outside of the actor's turn.
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

}  // namespace troupe::detail
