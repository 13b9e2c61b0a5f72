#include "troupe/apps/batch/observer.hpp"

#include "troupe/apps/cartpole/episode.hpp"
#include "troupe/apps/cartpole/state_tensor.hpp"

namespace batch {

observation_result observe(const observation_task& task) {
  cartpole::environment world(task.seed + 1 + task.observer);
  observation_result result{};
  int left = task.steps;
  while (left > 0) {
    cartpole::play_episode(
        world, left,
        [&](const cartpole::observation& seen) {
          --left;
          const auto state = cartpole::to_tensor(seen);
          return task.together
                     ? task.policy.rpc_sync<&agent::select_action>(task.observer, state)
                     : task.policy.rpc_sync<&agent::select_action_alone>(task.observer, state);
        },
        [](double) {});
    ++result.episodes;
  }
  return result;
}

}  // namespace batch
