#include "troupe/apps/cartpole/learner.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "troupe/apps/cartpole/environment.hpp"
#include "troupe/apps/cartpole/local.hpp"
#include "troupe/apps/cartpole/policy.hpp"
#include "troupe/apps/cartpole/trajectory.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using cartpole::learner;

// Plays episodes of exactly `steps` steps; the states need not be CartPole's.
void play(learner& agent, std::size_t observer, int steps) {
  for (int t = 0; t < steps; ++t) {
    const auto phase = 0.1f * static_cast<float>(t) + static_cast<float>(observer);
    agent.select_action(observer, at::tensor({std::sin(phase), std::cos(phase), phase, 0.1f}));
    agent.report_reward(observer, 1.0);
  }
}

std::vector<at::Tensor> gradients(cartpole::policy& network) {
  std::vector<at::Tensor> result;
  for (const auto& p : network.parameters()) result.push_back(p.grad().clone());
  network.zero_grad();
  return result;
}

// The tutorial's finish_episode, one graph node a step as its select_action makes them.
at::Tensor tutorial_loss(learner& agent, std::size_t observers, double gamma) {
  std::vector<at::Tensor> log_probs;
  std::vector<float> returns;
  for (std::size_t i = 0; i < observers; ++i) {
    const auto& episode = agent.episode(i);
    for (std::size_t t = 0; t < episode.steps(); ++t) {
      const auto row = static_cast<std::int64_t>(t);
      const auto probs = agent.network().forward(episode.states()[row].unsqueeze(0),
                                                 episode.masks()[row].unsqueeze(0));
      // torch.distributions.Categorical(probs).log_prob(action)
      const auto eps = std::numeric_limits<float>::epsilon();
      const auto logits = (probs / probs.sum(-1, true)).clamp(eps, 1 - eps).log();
      log_probs.push_back(logits.gather(-1, episode.actions()[row].unsqueeze(0)).squeeze(0));
    }
    std::vector<double> own;
    double total = 0;
    for (std::size_t t = episode.steps(); t-- > 0;) {
      total = episode.rewards()[t] + gamma * total;
      own.insert(own.begin(), total);
    }
    returns.insert(returns.end(), own.begin(), own.end());
  }
  auto scaled = at::tensor(returns);
  scaled = (scaled - scaled.mean()) / (scaled.std() + std::numeric_limits<float>::epsilon());
  std::vector<at::Tensor> losses;
  for (std::size_t t = 0; t < log_probs.size(); ++t)
    losses.push_back(-log_probs[t] * scaled[static_cast<std::int64_t>(t)]);
  return at::cat(losses).sum();
}

TEST(learner, batched_gradient_is_that_of_the_step_by_step_graph) {
  for (const std::size_t observers : {1u, 3u}) {
    learner agent({.seed = 5, .observers = observers});
    for (std::size_t i = 0; i < observers; ++i) play(agent, i, 120 + 30 * static_cast<int>(i));

    const auto batched_loss = agent.loss();
    batched_loss.backward();
    const auto batched = gradients(agent.network());
    const auto stepwise_loss = tutorial_loss(agent, observers, 0.99);
    stepwise_loss.backward();
    const auto stepwise = gradients(agent.network());

    EXPECT_NEAR(batched_loss.item<double>(), stepwise_loss.item<double>(),
                1e-5 * (1 + std::abs(stepwise_loss.item<double>())));
    ASSERT_EQ(batched.size(), 4u);
    for (std::size_t p = 0; p < batched.size(); ++p) {
      const double scale = stepwise[p].norm().item<double>();
      ASSERT_GT(scale, 1e-3);
      EXPECT_LE((batched[p] - stepwise[p]).norm().item<double>(), 1e-6 * scale) << p;
    }
  }
}

TEST(learner, discounts_each_episode_from_its_own_end) {
  const std::vector<double> rewards = {1, 1, 1};
  const auto returns = cartpole::discounted_returns(rewards, 0.5);
  EXPECT_EQ(returns, (std::vector<double>{1.75, 1.5, 1}));
  EXPECT_TRUE(cartpole::discounted_returns({}, 0.5).empty());
}

TEST(learner, normalizes_returns_with_the_unbiased_deviation) {
  const auto scaled = cartpole::normalized(at::tensor({1.0f, 2.0f, 3.0f}));
  EXPECT_TRUE(at::allclose(scaled, at::tensor({-1.0f, 0.0f, 1.0f}), 0, 1e-6));
  EXPECT_TRUE(at::equal(cartpole::normalized(at::ones({1})), at::zeros({1})));
  EXPECT_TRUE(at::equal(cartpole::normalized(at::ones({4})), at::zeros({4})));
}

TEST(learner, log_probabilities_are_clamped_like_categoricals) {
  const auto probabilities = at::tensor({0.25f, 0.75f, 1.0f, 0.0f}).view({2, 2});
  const auto actions = at::tensor({1, 1}, at::kLong).view({2, 1});
  const auto logs = cartpole::log_probabilities(probabilities, actions);
  EXPECT_NEAR(logs[0].item<double>(), std::log(0.75), 1e-6);
  EXPECT_NEAR(logs[1].item<double>(), std::log(1.1920929e-07), 1e-5);
}

TEST(learner, updates_once_with_adam) {
  learner agent({.seed = 3, .learning_rate = 0.01});
  play(agent, 0, 50);
  std::vector<at::Tensor> before;
  for (const auto& p : agent.network().parameters()) before.push_back(p.detach().clone());
  agent.loss().backward();
  const auto grads = gradients(agent.network());
  agent.finish_episode();
  // Adam's first step is lr * g / (|g| + eps), whatever the size of the gradient.
  const auto after = agent.network().parameters();
  for (std::size_t p = 0; p < before.size(); ++p) {
    const auto expected = before[p] - 0.01 * grads[p] / (grads[p].abs() + 1e-8);
    EXPECT_TRUE(at::allclose(after[p], expected, 1e-4, 1e-5)) << p;
  }
}

TEST(learner, running_reward_follows_the_worst_observer) {
  learner agent({.seed = 4, .observers = 2});
  play(agent, 0, 30);
  play(agent, 1, 20);
  auto result = agent.finish_episode();
  EXPECT_EQ(result.last_reward, 20);
  EXPECT_EQ(result.steps, 50);
  EXPECT_DOUBLE_EQ(result.running_reward, 1.0);
  play(agent, 0, 10);
  play(agent, 1, 60);
  result = agent.finish_episode();
  EXPECT_EQ(result.last_reward, 10);
  EXPECT_DOUBLE_EQ(result.running_reward, 0.05 * 10 + 0.95 * 1.0);
}

TEST(learner, does_not_depend_on_the_order_in_which_observers_ask) {
  learner in_turn({.seed = 6, .observers = 2});
  learner mixed({.seed = 6, .observers = 2});
  for (int round = 0; round < 3; ++round) {
    play(in_turn, 0, 40);
    play(in_turn, 1, 40);
    for (int t = 0; t < 40; ++t)
      for (const std::size_t observer : {1u, 0u}) {
        const auto phase = 0.1f * static_cast<float>(t) + static_cast<float>(observer);
        mixed.select_action(observer, at::tensor({std::sin(phase), std::cos(phase), phase, 0.1f}));
        mixed.report_reward(observer, 1.0);
      }
    for (const std::size_t i : {0u, 1u})
      ASSERT_TRUE(at::equal(in_turn.episode(i).actions(), mixed.episode(i).actions()));
    in_turn.finish_episode();
    mixed.finish_episode();
  }
}

TEST(learner, refuses_unknown_observers_and_unfinished_rounds) {
  EXPECT_THROW(learner({.observers = 0}), troupe::invalid_argument);
  learner agent({.seed = 1, .observers = 2});
  EXPECT_THROW(agent.select_action(2, at::zeros({4})), troupe::invalid_argument);
  EXPECT_THROW(agent.report_reward(7, 1), troupe::invalid_argument);
  play(agent, 0, 5);
  EXPECT_THROW(agent.finish_episode(), troupe::invalid_argument);  // observer 1 has not played
  play(agent, 1, 5);
  agent.select_action(1, at::zeros({4}));
  EXPECT_THROW(agent.finish_episode(), troupe::invalid_argument);  // its reward is missing
  agent.report_reward(1, 1);
  EXPECT_EQ(agent.finish_episode().steps, 11);
}

TEST(learner, a_round_of_single_steps_changes_nothing) {
  learner agent({.seed = 1});
  play(agent, 0, 1);
  const auto before = agent.network().parameters()[0].detach().clone();
  agent.finish_episode();
  EXPECT_TRUE(at::equal(agent.network().parameters()[0], before));
}

// A seed needs from two hundred to two thousand episodes, one to four seconds.
class solves : public testing::TestWithParam<std::uint64_t> {};

TEST_P(solves, cartpole) {
  learner agent({.seed = GetParam()});
  auto environments = cartpole::make_environments(GetParam(), 1);
  cartpole::round_result result;
  int episodes = 0;
  while (result.running_reward <= cartpole::reward_threshold && episodes < 6000) {
    result = cartpole::play_round(agent, environments);
    ++episodes;
  }
  EXPECT_GT(result.running_reward, cartpole::reward_threshold) << episodes << " episodes";
}

INSTANTIATE_TEST_SUITE_P(seeds, solves, testing::Range<std::uint64_t>(1, 6));

TEST(learner, is_reproducible) {
  auto rewards = [](std::uint64_t seed) {
    learner agent({.seed = seed, .observers = 2});
    auto environments = cartpole::make_environments(seed, 2);
    std::vector<double> result;
    for (int i = 0; i < 20; ++i)
      result.push_back(cartpole::play_round(agent, environments).last_reward);
    return result;
  };
  EXPECT_EQ(rewards(1), rewards(1));
  EXPECT_NE(rewards(1), rewards(2));
}

}  // namespace
