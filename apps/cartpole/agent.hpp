#pragma once

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "apps/cartpole/hyperparameters.hpp"
#include "apps/cartpole/messages.hpp"

namespace cartpole {

/// Owns the policy and learns from the episodes of all observers.
using agent = caf::typed_actor<caf::replies_to<select_action>::with<std::int64_t>,
                               caf::reacts_to<report_reward>,
                               caf::replies_to<finish_episode>::with<round_result>>;

/// The behaviour of an agent with a learner of its own.
agent::behavior_type act(agent::pointer self, hyperparameters chosen);

}  // namespace cartpole
