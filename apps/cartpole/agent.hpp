#pragma once

#include <troupe/troupe.hpp>

#include "troupe/apps/cartpole/hyperparameters.hpp"
#include "troupe/apps/cartpole/messages.hpp"

namespace cartpole {

/// Owns the policy and learns from the episodes of all observers.
using agent = troupe::actor<troupe::answers<select_action, std::int64_t>,  //
                            troupe::answers<report_reward>,                //
                            troupe::answers<finish_episode, round_result>>;

/// The behaviour of an agent with a learner of its own.
agent::behavior_type act(agent::pointer self, hyperparameters chosen);

}  // namespace cartpole
