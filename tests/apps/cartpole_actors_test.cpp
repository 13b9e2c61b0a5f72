#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include "apps/cartpole/agent.hpp"
#include "apps/cartpole/local.hpp"
#include "apps/cartpole/observer.hpp"
#include "apps/cartpole/state_tensor.hpp"
#include "messages/error.hpp"

namespace {

using namespace cartpole;

class actors : public testing::Test {
protected:
  // An observer waits inside its handler, so that each needs a thread of its own.
  struct config : caf::actor_system_config {
    config() { set("scheduler.max-threads", 6); }
  };

  template <class Answer, class Handle, class Message>
  Answer ask(const Handle& whom, Message question) {
    Answer result{};
    self_->request(whom, caf::infinite, std::move(question))
        .receive([&](const Answer& answer) { result = answer; },
                 [&](const caf::error& why) { FAIL() << system_.render(why); });
    return result;
  }

  config config_;
  caf::actor_system system_{config_};
  caf::scoped_actor self_{system_};
};

TEST_F(actors, play_the_rounds_of_the_local_run) {
  constexpr std::uint64_t seed = 3;
  constexpr std::uint32_t count = 3;
  const hyperparameters chosen{.seed = seed, .observers = count};

  learner local_agent(chosen);
  auto environments = make_environments(seed, count);

  auto policy = self_->spawn(act, chosen);
  std::vector<observer> observers;
  for (std::uint32_t i = 0; i < count; ++i)
    observers.push_back(self_->spawn(observe, policy, i, seed + 1 + i));

  for (int round = 0; round < 8; ++round) {
    // All observers play at once, in whatever order the threads make of it.
    double least = max_episode_steps;
    for (const auto& each : observers) self_->send(each, run_episode{max_episode_steps});
    for (std::uint32_t i = 0; i < count; ++i)
      self_->receive([&](double total) { least = std::min(least, total); });
    const auto theirs = ask<round_result>(policy, finish_episode{});
    const auto ours = play_round(local_agent, environments);
    EXPECT_EQ(theirs.last_reward, least);
    EXPECT_EQ(theirs.last_reward, ours.last_reward) << "round " << round;
    EXPECT_EQ(theirs.running_reward, ours.running_reward);
    EXPECT_EQ(theirs.steps, ours.steps);
  }
}

TEST_F(actors, episodes_end_at_the_limit_asked_for) {
  auto policy = self_->spawn(act, hyperparameters{});
  auto player = self_->spawn(observe, policy, 0u, std::uint64_t{1});
  EXPECT_EQ(ask<double>(player, run_episode{5}), 5);
  EXPECT_EQ(ask<round_result>(policy, finish_episode{}).steps, 5);
}

TEST_F(actors, an_observer_whose_agent_is_gone_says_so) {
  auto policy = self_->spawn(act, hyperparameters{});
  auto player = self_->spawn(observe, policy, 0u, std::uint64_t{1});
  self_->send_exit(policy, caf::exit_reason::user_shutdown);
  self_->wait_for(policy);
  bool failed = false;
  self_->request(player, caf::infinite, run_episode{5})
      .receive([](double) {}, [&](const caf::error&) { failed = true; });
  EXPECT_TRUE(failed);
}

}  // namespace
