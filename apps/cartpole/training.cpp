#include "troupe/apps/cartpole/training.hpp"

#include <chrono>
#include <nlohmann/json.hpp>

#include "troupe/apps/cartpole/environment.hpp"

namespace cartpole {

void train(training_record& record, const training_limits& limits, int calls_per_step,
           const std::function<round_result()>& play_round,
           const std::function<void(const training_record&)>& watch) {
  using clock = std::chrono::steady_clock;
  const auto start = clock::now();
  const auto at_limit = [&] {
    return (limits.episodes > 0 && record.episodes() >= std::size_t(limits.episodes)) ||
           (limits.seconds > 0 && record.seconds >= limits.seconds);
  };
  while (!record.solved && !at_limit()) {
    const round_result result = play_round();
    record.last_rewards.push_back(result.last_reward);
    record.running_rewards.push_back(result.running_reward);
    record.steps += result.steps;
    record.calls += result.steps * calls_per_step;
    record.seconds = std::chrono::duration<double>(clock::now() - start).count();
    record.solved = result.running_reward > reward_threshold;
    watch(record);
  }
}

std::string to_json(const training_record& record) {
  const nlohmann::ordered_json document = {
      {"solved", record.solved},
      {"episodes", record.episodes()},
      {"seconds", record.seconds},
      {"steps", record.steps},
      {"steps_per_second", record.steps_per_second()},
      {"calls_per_second", record.calls_per_second()},
      {"running_reward", record.running_reward()},
      {"seed", record.seed},
      {"observers", record.observers},
      {"average", record.average},
  };
  return document.dump(2) + "\n";
}

}  // namespace cartpole
