#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "troupe/apps/cartpole/round.hpp"

namespace cartpole {

/// The result of a run.
struct training_record {
  std::uint64_t seed = 0;
  std::size_t observers = 0;
  int average = 0;  ///< episodes between two averages of the observers' policies; 0: one policy
  std::vector<double> last_rewards{};     ///< of each round, its worst observer's
  std::vector<double> running_rewards{};  ///< after each round
  std::int64_t steps = 0;                 ///< of all environments
  std::int64_t calls = 0;                 ///< remote calls from observers to the agent
  double seconds = 0;
  bool solved = false;

  std::size_t episodes() const noexcept { return last_rewards.size(); }
  double running_reward() const { return running_rewards.empty() ? 0 : running_rewards.back(); }
  double steps_per_second() const { return seconds > 0 ? double(steps) / seconds : 0; }
  double calls_per_second() const { return seconds > 0 ? double(calls) / seconds : 0; }
};

/// Where training stops before the task is solved; 0 means never.
struct training_limits {
  int episodes = 0;
  double seconds = 0;
};

/// Calls `play_round` until the running reward is above reward_threshold or a limit is reached.
///
/// `record` has seed and observers set and is filled after every round, before `watch` sees it.
/// `calls_per_step` is 2 where observers are remote (select_action, report_reward), else 0.
void train(training_record& record, const training_limits& limits, int calls_per_step,
           const std::function<round_result()>& play_round,
           const std::function<void(const training_record&)>& watch);

/// The record's numbers as a JSON object, without the curves.
std::string to_json(const training_record& record);

}  // namespace cartpole
