#include "troupe/apps/cartpole/options.hpp"

#include "troupe/apps/common/command_line.hpp"
#include "troupe/apps/common/number_check.hpp"

namespace cartpole {

namespace {

constexpr const char* footer = R"(Examples:
  build/apps/troupe-run -n 3 build/apps/cartpole --plot reward.svg
  build/apps/cartpole --local --seed 3
  build/apps/troupe-run -n 3 build/apps/cartpole --average 2 --observers 4

Rank 0 is the agent, every other rank may be an observer. An episode in the output is a round: one
episode of every observer, then one update of the policy. With --average there is no agent: every
observer trains a policy of its own, several observers may be on one rank, and a round is so many
episodes of each, then the average. The run ends when it has solved the task, at a limit given
above, or with Ctrl+C.)";

using common::require;
using common::whole_number;

void add_training_options(CLI::App& app, options& opts) {
  app.add_option("--seed", opts.seed, "Seed of the policy, its sampling and the environments")
      ->check(whole_number<std::uint64_t>(0))
      ->capture_default_str();
  app.add_option("--observers", opts.observers,
                 "Number of observers (default: all ranks but the agent's; 1 with --local)")
      ->check(whole_number(1, 65535));
  app.add_option("--gamma", opts.gamma, "Discount of later rewards")
      ->check(require<double>("a number from 0 to 1", [](double g) { return g >= 0 && g <= 1; }))
      ->capture_default_str();
  app.add_option("--episodes", opts.episodes, "Stop after this many episodes (default: no limit)")
      ->check(whole_number(1));
  app.add_option("--max-seconds", opts.max_seconds,
                 "Stop after this many seconds (default: no limit)")
      ->check(common::positive_number());
  auto* const local = app.add_flag("--local", opts.local,
                                   "Run agent and observers in this process, without a network");
  app.add_option("--average", opts.average,
                 "Have each observer train a policy of its own, and average them after so many "
                 "episodes (default: the agent trains the only one)")
      ->check(whole_number(1))
      ->excludes(local);
}

void add_output_options(CLI::App& app, options& opts) {
  app.add_option("--log-interval", opts.log_interval, "Episodes between two lines of progress")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_option("--plot", opts.plot, "Write the reward curve to this file, as SVG")
      ->type_name("FILE");
  app.add_option("--json", opts.json, "Write the run's numbers to this file, as JSON")
      ->type_name("FILE");
}

}  // namespace

std::optional<options> parse_options(int argc, const char* const* argv, int& exit_code) {
  options opts;
  CLI::App app("Reinforcement learning of CartPole-v1: one agent, many observers.", "cartpole");
  common::describe(app, footer);
  add_training_options(app, opts);
  add_output_options(app, opts);
  if (!common::parse(app, argc, argv, exit_code)) return std::nullopt;
  if (opts.local && opts.observers == 0) opts.observers = 1;
  return opts;
}

}  // namespace cartpole
