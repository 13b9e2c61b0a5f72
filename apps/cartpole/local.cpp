#include "troupe/apps/cartpole/local.hpp"

#include "troupe/apps/cartpole/episode.hpp"
#include "troupe/apps/cartpole/state_tensor.hpp"

namespace cartpole {

std::vector<environment> make_environments(std::uint64_t seed, std::size_t observers) {
  std::vector<environment> result;
  for (std::size_t i = 0; i < observers; ++i) result.emplace_back(seed + 1 + i);
  return result;
}

round_result play_round(learner& agent, std::vector<environment>& environments) {
  for (std::size_t i = 0; i < environments.size(); ++i)
    play_episode(
        environments[i], max_episode_steps,
        [&](const observation& seen) { return agent.select_action(i, to_tensor(seen)); },
        [&](double reward) { agent.report_reward(i, reward); });
  return agent.finish_episode();
}

}  // namespace cartpole
