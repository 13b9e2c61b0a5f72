#include "troupe/apps/cartpole/reward_plot.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/apps/cartpole/environment.hpp"
#include "troupe/apps/common/line_plot.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace cartpole {

namespace {

common::line_plot::points by_episode(const std::vector<double>& rewards) {
  common::line_plot::points out;
  for (const double reward : rewards) out.push_back({double(out.size() + 1), reward});
  return out;
}

}  // namespace

std::string to_svg(const training_record& record) {
  double highest = max_episode_steps;
  for (const double reward : record.last_rewards) highest = std::max(highest, reward);
  const auto averaging = record.average > 0
                             ? fmt::format(" that average after {} episodes each", record.average)
                             : std::string();
  common::line_plot picture(
      "CartPole-v1: reward per episode",
      fmt::format("{} after {} episodes, {} steps, {:.1f} s; {} {}{}, seed {}",
                  record.solved ? "solved" : "not solved",
                  common::with_commas(double(record.episodes())),
                  common::with_commas(double(record.steps)), record.seconds, record.observers,
                  record.observers == 1 ? "observer" : "observers", averaging, record.seed),
      {.name = "Episode", .first = 1, .last = std::max(double(record.episodes()), 2.0)},
      {.name = "Reward", .first = 0, .last = highest * 1.02});
  picture.add_level(fmt::format("solved at {}", reward_threshold), common::plot_color(2),
                    reward_threshold);
  picture.add_dots(record.observers > 1 ? "worst observer" : "episode", common::plot_color(0),
                   by_episode(record.last_rewards));
  picture.add_line("running reward", common::plot_color(1), by_episode(record.running_rewards));
  return picture.svg();
}

}  // namespace cartpole
