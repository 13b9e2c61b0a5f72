#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "troupe/apps/cartpole/environment.hpp"
#include "troupe/apps/cartpole/job.hpp"
#include "troupe/apps/cartpole/learner.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using namespace cartpole;

TEST(actors, play_the_rounds_of_the_local_run) {
  for (const std::size_t count : {1u, 3u}) {
    const hyperparameters chosen{.seed = 3, .observers = count};
    learner local_agent(chosen);
    auto environments = make_environments(chosen.seed, count);

    const auto nodes = troupe::local_nodes({"agent", "first", "second", "third"});
    job training(nodes[0], chosen);
    for (int round = 0; round < 8; ++round) {
      // The observers play at once, in whatever order the threads make of it.
      const auto theirs = training.play_round();
      const auto ours = play_round(local_agent, environments);
      EXPECT_EQ(theirs.last_reward, ours.last_reward) << "round " << round;
      EXPECT_EQ(theirs.running_reward, ours.running_reward);
      EXPECT_EQ(theirs.steps, ours.steps);
    }
  }
}

TEST(actors, episodes_end_at_the_limit_asked_for) {
  const auto nodes = troupe::local_nodes({"agent", "observer"});
  const auto policy = nodes[0].spawn(act, hyperparameters{});
  const auto player = nodes[0].spawn_on<observe>("observer", policy, 0u, std::uint64_t{1});
  EXPECT_EQ(troupe::request(player, run_episode{5}).get(), 5);
  EXPECT_EQ(troupe::request(policy, finish_episode{}).get().steps, 5);
}

TEST(actors, an_observer_the_agent_does_not_know_is_refused) {
  const auto nodes = troupe::local_nodes({"agent", "observer"});
  const auto policy = nodes[0].spawn(act, hyperparameters{.observers = 1});
  const auto player = nodes[0].spawn_on<observe>("observer", policy, 7u, std::uint64_t{1});
  try {
    troupe::request(player, run_episode{5}).get();
    FAIL() << "observer 7 has played";
  } catch (const troupe::error& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("there is no observer 7"));
  }
}

TEST(actors, need_a_rank_each) {
  EXPECT_EQ(count_observers(0, 4), 3u);
  EXPECT_EQ(count_observers(2, 4), 2u);
  EXPECT_EQ(count_observers(3, 4), 3u);
  EXPECT_THROW(count_observers(4, 4), troupe::invalid_argument);
  try {
    count_observers(0, 1);
    FAIL() << "an agent alone has trained";
  } catch (const troupe::invalid_argument& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("troupe-run -n 2"));
    EXPECT_THAT(failure.what(), testing::HasSubstr("--local"));
  }
}

}  // namespace
