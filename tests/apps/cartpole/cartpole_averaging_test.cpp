// Observers that train policies of their own and average them, as a group of actors.
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/cartpole/cartpole_run.hpp"
#include "troupe/apps/cartpole/averaging_job.hpp"
#include "troupe/apps/cartpole/training.hpp"

namespace {

using namespace cartpole;

constexpr hyperparameters four_observers{.seed = 2, .observers = 4};
constexpr int episodes = 2;
constexpr int rounds = 30;

TEST(averaging, observers_have_one_policy_that_gets_better) {
  const auto nodes = troupe::local_nodes({"first", "second", "third"});
  averaging_job training(nodes[0], four_observers, episodes);
  training_record record;
  train(
      record, {.episodes = rounds}, 0, [&] { return training.play_round(); },
      [](const training_record&) {});
  const auto policies = training.parameters();
  ASSERT_EQ(policies.size(), 4u);
  for (const auto& one : policies) {
    ASSERT_EQ(one.size(), policies[0].size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(at::equal(one[i], policies[0][i])) << "parameter " << i;
  }
  // Who learns nothing keeps a pole up for some twenty steps, and the worst of four for fewer.
  EXPECT_LT(record.running_rewards.at(4), 20);
  EXPECT_GT(record.running_reward(), 60);
  EXPECT_GT(record.steps, rounds * 4 * episodes * 30);
}

TEST(averaging, does_the_same_on_one_node_and_on_several) {
  std::vector<double> rewards;
  for (const auto& names : std::vector<std::vector<std::string>>{{"alone"}, {"a", "b", "c"}}) {
    const auto nodes = troupe::local_nodes(names);
    averaging_job training(nodes[0], four_observers, episodes);
    for (int round = 0; round < 5; ++round) training.play_round();
    rewards.push_back(training.play_round().running_reward);
  }
  EXPECT_EQ(rewards[0], rewards[1]);
}

TEST(averaging, takes_two_observers_or_one_on_each_other_rank) {
  EXPECT_EQ(count_averaging_observers(0, 1), 2u);
  EXPECT_EQ(count_averaging_observers(0, 2), 2u);
  EXPECT_EQ(count_averaging_observers(0, 5), 4u);
  EXPECT_EQ(count_averaging_observers(7, 2), 7u);
}

TEST(averaging, runs_in_processes) {
  const auto run = troupe::test::run_cartpole(3, four_observers.seed, rounds,
                                              {"--average", "2", "--observers", "4"});
  ASSERT_EQ(run.launch.code, 0) << run.launch.out << run.launch.err;
  EXPECT_EQ(run.numbers["observers"], 4);
  EXPECT_EQ(run.numbers["average"], 2);
  EXPECT_EQ(run.numbers["episodes"], rounds);
  EXPECT_GT(run.numbers["running_reward"], 60);
}

}  // namespace
