/// cartpole: one agent and many observers solve CartPole-v1.

#include <ATen/Parallel.h>

#include "troupe/apps/cartpole/averaging_job.hpp"
#include "troupe/apps/cartpole/job.hpp"
#include "troupe/apps/cartpole/learner.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/apps/cartpole/options.hpp"
#include "troupe/apps/cartpole/progress.hpp"
#include "troupe/apps/cartpole/reward_plot.hpp"
#include "troupe/apps/cartpole/training.hpp"
#include "troupe/apps/common/program.hpp"

namespace {

using namespace cartpole;

void play(const options& opts, int calls_per_step,
          const std::function<round_result()>& play_round) {
  common::run_recorded(opts, [&](common::status_line& line) {
    training_record record{.seed = opts.seed, .observers = opts.observers, .average = opts.average};
    progress shown(line, opts.log_interval);
    shown.begin();
    train(record, {.episodes = opts.episodes, .seconds = opts.max_seconds}, calls_per_step,
          play_round, [&](const training_record& now) { shown.update(now); });
    shown.end(record);
    return record;
  });
}

hyperparameters chosen(const options& opts) {
  return {.seed = opts.seed, .observers = opts.observers, .gamma = opts.gamma};
}

void play_here(const options& opts) {
  learner agent(chosen(opts));
  auto environments = make_environments(opts.seed, opts.observers);
  play(opts, 0, [&] { return play_round(agent, environments); });
}

void play_on_ranks(options opts) {
  const auto node = troupe::init_rpc();
  opts.observers = count_observers(opts.observers, node.world_size());
  if (node.rank() == 0) {
    job training(node, chosen(opts));
    play(opts, 2, [&] { return training.play_round(); });
  }
  node.shutdown();  // observers serve the agent until then
}

void average_on_ranks(options opts) {
  const auto node = troupe::init_rpc();
  opts.observers = count_averaging_observers(opts.observers, node.world_size());
  if (node.rank() == 0) {
    averaging_job training(node, chosen(opts), opts.average);
    play(opts, 0, [&] { return training.play_round(); });
  }
  node.shutdown();
}

bool run(const options& opts) {
  at::set_num_threads(1);  // the network is too small to share among threads
  if (opts.local)
    play_here(opts);
  else if (opts.average > 0)
    average_on_ranks(opts);
  else
    play_on_ranks(opts);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  return common::program("cartpole", argc, argv, &parse_options, &run);
}
