#include "troupe/apps/cartpole/job.hpp"

#include <string>

#include "troupe/apps/cartpole/environment.hpp"
#include "troupe/messages/base/error.hpp"

namespace cartpole {

job::job(const troupe::node& node, const hyperparameters& chosen) {
  const std::size_t count = count_observers(chosen.observers, node.world_size());
  policy_ = node.spawn(act, chosen);
  for (std::uint32_t i = 0; i < count; ++i)
    observers_.push_back(node.spawn_on<observe>(i + 1, policy_, i, chosen.seed + 1 + i));
}

round_result job::play_round() {
  troupe::when_all(observers_, run_episode{max_episode_steps}).get();
  return troupe::request(policy_, finish_episode{}).get();
}

std::size_t count_observers(std::size_t asked, std::size_t world_size) {
  const std::size_t needed = asked == 0 ? 2 : asked + 1;
  if (world_size < needed)
    throw troupe::invalid_argument(std::to_string(needed - 1) + " observer(s) and the agent need " +
                                   std::to_string(needed) + " ranks, and there are " +
                                   std::to_string(world_size) + ": start them with troupe-run -n " +
                                   std::to_string(needed) + ", or use --local");
  return asked == 0 ? world_size - 1 : asked;
}

}  // namespace cartpole
