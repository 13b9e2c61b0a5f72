#include "troupe/apps/cartpole/agent.hpp"

#include <memory>

#include "troupe/apps/cartpole/learner.hpp"

namespace cartpole {

agent::behavior_type act(agent::pointer, hyperparameters chosen) {
  const auto state = std::make_shared<learner>(chosen);
  return {
      [state](const select_action& asked) {
        return state->select_action(asked.observer, asked.state);
      },
      [state](const report_reward& told) { state->report_reward(told.observer, told.reward); },
      [state](const finish_episode&) { return state->finish_episode(); },
  };
}

}  // namespace cartpole
