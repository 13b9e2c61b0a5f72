// CartPole as a user starts it, the agent and two observers in processes of their own: it learns,
// and what it learns is what one process does.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/cartpole/cartpole_run.hpp"
#include "troupe/apps/cartpole/learner.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/apps/cartpole/training.hpp"

namespace {

using namespace cartpole;

constexpr std::uint64_t seed = 5;
constexpr std::size_t observers = 2;
constexpr int rounds = 30;

training_record run_locally() {
  at::set_num_threads(1);  // as the program does
  learner agent({.seed = seed, .observers = observers});
  auto environments = make_environments(seed, observers);
  training_record record{.seed = seed, .observers = observers};
  train(
      record, {.episodes = rounds}, 0, [&] { return play_round(agent, environments); },
      [](const training_record&) {});
  return record;
}

TEST(cartpole_processes, learn_what_one_process_learns) {
  const auto run = troupe::test::run_cartpole(3, seed, rounds);
  ASSERT_EQ(run.launch.code, 0) << run.launch.out << run.launch.err;
  const auto& got = run.numbers;
  EXPECT_EQ(got["observers"], observers);
  EXPECT_EQ(got["episodes"], rounds);
  EXPECT_EQ(got["solved"], false);
  EXPECT_GT(got["calls_per_second"], 0);

  // Who learns nothing keeps a pole up for some twenty steps, and the worst of two for fewer.
  EXPECT_GT(got["running_reward"], 40) << "after " << rounds << " rounds";
  const auto wanted = run_locally();
  EXPECT_LT(wanted.running_rewards.at(9), 40) << "the reward before there was much to learn from";
  EXPECT_EQ(got["steps"], wanted.steps);
  EXPECT_EQ(got["running_reward"], wanted.running_reward());
}

}  // namespace
