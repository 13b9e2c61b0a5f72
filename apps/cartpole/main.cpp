/// cartpole: one agent and many observers solve CartPole-v1.

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <iostream>

#include "troupe/apps/cartpole/job.hpp"
#include "troupe/apps/cartpole/learner.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/apps/cartpole/options.hpp"
#include "troupe/apps/cartpole/progress.hpp"
#include "troupe/apps/cartpole/reward_plot.hpp"
#include "troupe/apps/cartpole/training.hpp"
#include "troupe/apps/common/files.hpp"

namespace {

using namespace cartpole;

void run(const options& opts, int calls_per_step, const std::function<round_result()>& play_round) {
  for (const auto& path : {opts.plot, opts.json})
    if (!path.empty()) common::require_writable(path);
  training_record record{.seed = opts.seed, .observers = opts.observers};
  progress told(std::cout, isatty(STDOUT_FILENO) != 0, opts.log_interval);
  told.begin();
  train(record, {.episodes = opts.episodes, .seconds = opts.max_seconds}, calls_per_step,
        play_round, [&](const training_record& now) { told.update(now); });
  told.end(record);
  if (!opts.plot.empty()) common::write_file(opts.plot, reward_plot(record));
  if (!opts.json.empty()) common::write_file(opts.json, to_json(record));
  told.check();
}

hyperparameters chosen(const options& opts) {
  return {.seed = opts.seed, .observers = opts.observers, .gamma = opts.gamma};
}

void run_local(const options& opts) {
  learner agent(chosen(opts));
  auto environments = make_environments(opts.seed, opts.observers);
  run(opts, 0, [&] { return play_round(agent, environments); });
}

void run_ranks(options opts) {
  const auto node = troupe::init_rpc();
  opts.observers = count_observers(opts.observers, node.world_size());
  if (node.rank() == 0) {
    job training(node, chosen(opts));
    run(opts, 2, [&] { return training.play_round(); });
  }
  node.shutdown();  // observers serve the agent until then
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int exit_code = 0;
    const auto opts = parse_options(argc, argv, exit_code);
    if (!opts) return exit_code;
    at::set_num_threads(1);  // the network is too small to share among threads
    if (opts->local)
      run_local(*opts);
    else
      run_ranks(*opts);
    return 0;
  } catch (const std::exception& failure) {
    fmt::print(stderr, "cartpole: {}\n", failure.what());
    return 1;
  }
}
