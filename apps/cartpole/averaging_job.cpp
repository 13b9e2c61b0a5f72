#include "troupe/apps/cartpole/averaging_job.hpp"

#include <algorithm>
#include <limits>

namespace cartpole {

averaging_job::averaging_job(const troupe::node& node, const hyperparameters& chosen, int episodes)
    : episodes_(episodes) {
  const auto ranks = static_cast<std::uint32_t>(node.world_size());
  for (std::uint32_t i = 0; i < chosen.observers; ++i) {
    const auto where = ranks == 1 ? 0 : 1 + i % (ranks - 1);
    observers_.push_back(node.spawn_on<observe_and_average>(where, chosen, i));
  }
  troupe::when_all(observers_, begin_averaging{troupe::actor_group(node, observers_)}).get();
}

round_result averaging_job::play_round() {
  round_result result;
  result.last_reward = std::numeric_limits<double>::infinity();
  for (const auto& one : troupe::when_all(observers_, train_and_average{episodes_}).get()) {
    result.last_reward = std::min(result.last_reward, one.last_reward);
    result.steps += one.steps;
  }
  running_reward_ = 0.05 * result.last_reward + 0.95 * running_reward_;
  result.running_reward = running_reward_;
  return result;
}

std::vector<std::vector<at::Tensor>> averaging_job::parameters() const {
  return troupe::when_all(observers_, read_parameters{}).get();
}

std::size_t count_averaging_observers(std::size_t asked, std::size_t world_size) {
  return asked != 0 ? asked : std::max<std::size_t>(2, world_size - 1);
}

}  // namespace cartpole
