#pragma once

#include <cstdint>

#include "troupe/apps/cartpole/environment.hpp"

namespace cartpole {

/// The observer's loop: plays one episode of at most `max_steps` steps and gives its total reward.
///
/// `select_action(observation) -> std::int64_t` and `report_reward(double)` are the agent, whether
/// it is a remote actor or an object of this process.
template <class SelectAction, class ReportReward>
double play_episode(environment& world, int max_steps, SelectAction&& select_action,
                    ReportReward&& report_reward) {
  double total = 0;
  observation seen = world.reset();
  for (int step = 0; step < max_steps; ++step) {
    const transition result = world.step(select_action(seen));
    report_reward(result.reward);
    total += result.reward;
    if (result.done()) break;
    seen = world.observe();
  }
  return total;
}

}  // namespace cartpole
