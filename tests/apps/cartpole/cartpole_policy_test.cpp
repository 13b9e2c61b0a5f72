#include "troupe/apps/cartpole/policy.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include <cmath>

#include "troupe/apps/cartpole/trajectory.hpp"
#include "troupe/messages/base/error.hpp"

namespace {

using cartpole::policy;
using cartpole::trajectory;

at::Generator generator(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

TEST(policy, has_the_tutorials_layers) {
  policy network(generator(1));
  const auto named = network.named_parameters();
  EXPECT_EQ(named["affine1.weight"].sizes(), at::IntArrayRef({128, 4}));
  EXPECT_EQ(named["affine1.bias"].sizes(), at::IntArrayRef({128}));
  EXPECT_EQ(named["affine2.weight"].sizes(), at::IntArrayRef({2, 128}));
  EXPECT_EQ(named["affine2.bias"].sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(network.parameters().size(), 4u);
}

TEST(policy, starts_from_linears_default_distribution) {
  policy network(generator(2));
  for (const auto& item : network.named_parameters()) {
    const double bound = item.key().starts_with("affine1") ? 0.5 : 1 / std::sqrt(128.0);
    const double largest = item.value().abs().max().item<double>();
    EXPECT_LE(largest, bound) << item.key();
    if (item.value().numel() < 100) continue;
    EXPECT_GT(largest, 0.95 * bound) << item.key();
    // A uniform distribution on [-bound, bound] has the deviation bound / sqrt(3).
    EXPECT_NEAR(item.value().std().item<double>(), bound / std::sqrt(3.0), 0.1 * bound);
    EXPECT_NEAR(item.value().mean().item<double>(), 0, 0.15 * bound) << item.key();
  }
}

TEST(policy, forward_is_softmax_of_two_layers_around_a_masked_relu) {
  policy network(generator(3));
  const auto named = network.named_parameters();
  const auto states = at::randn({5, 4}, generator(4));
  const auto masks = cartpole::draw_masks(5, generator(5));
  const auto hidden =
      (at::matmul(states, named["affine1.weight"].t()) + named["affine1.bias"]) * masks;
  const auto scores =
      at::matmul(hidden.clamp_min(0), named["affine2.weight"].t()) + named["affine2.bias"];
  EXPECT_TRUE(at::allclose(network.forward(states, masks), scores.softmax(1), 1e-5, 1e-6));
}

TEST(policy, masks_keep_two_units_of_five_and_scale_them) {
  const auto masks = cartpole::draw_masks(1000, generator(6));
  EXPECT_EQ(masks.sizes(), at::IntArrayRef({1000, 128}));
  const auto kept = masks.gt(0);
  EXPECT_TRUE(at::equal(masks, kept.to(at::kFloat).div(0.4)));
  // 128,000 draws: the deviation of the mean is 0.0014.
  EXPECT_NEAR(kept.to(at::kFloat).mean().item<double>(), 0.4, 0.006);
}

TEST(trajectory, records_what_decided_each_action) {
  policy network(generator(7));
  trajectory episode(8);
  std::vector<std::int64_t> taken;
  for (int t = 0; t < 200; ++t) {
    taken.push_back(episode.act(network, at::full({4}, 0.01 * t, at::kFloat)));
    episode.reward(t);
  }
  EXPECT_EQ(episode.steps(), 200u);
  EXPECT_EQ(episode.states().sizes(), at::IntArrayRef({200, 4}));
  EXPECT_EQ(episode.masks().sizes(), at::IntArrayRef({200, 128}));
  EXPECT_EQ(episode.actions().sizes(), at::IntArrayRef({200, 1}));
  EXPECT_EQ(episode.states()[150][2].item<float>(), 1.5f);
  EXPECT_EQ(episode.rewards()[199], 199);
  EXPECT_TRUE(at::equal(episode.actions().squeeze(1), at::tensor(taken, at::kLong)));
  EXPECT_FALSE(at::equal(episode.masks()[0], episode.masks()[1]));
  EXPECT_FALSE(episode.masks().requires_grad());
  episode.clear();
  EXPECT_EQ(episode.steps(), 0u);
}

TEST(trajectory, samples_actions_with_the_policys_probabilities) {
  policy network(generator(9));
  const auto state = at::tensor({1.0f, -2.0f, 0.5f, 3.0f});
  trajectory episode(10);
  constexpr int samples = 20000;
  for (int t = 0; t < samples; ++t) {
    episode.act(network, state);
    episode.reward(1);
  }
  const at::NoGradGuard no_grad;
  const auto expected = network.forward(episode.states(), episode.masks()).select(1, 1);
  const auto actions = episode.actions().squeeze(1).to(at::kFloat);
  const double deviation = 0.5 / std::sqrt(samples);
  EXPECT_NEAR(actions.mean().item<double>(), expected.mean().item<double>(), 4 * deviation);
  // And step by step: a policy that is surer of action 1 takes it more often.
  const auto sure = expected.gt(expected.median());
  EXPECT_NEAR(actions.masked_select(sure).mean().item<double>(),
              expected.masked_select(sure).mean().item<double>(), 6 * deviation);
}

TEST(trajectory, follows_from_its_seed) {
  policy network(generator(11));
  auto actions = [&](std::uint64_t seed) {
    trajectory episode(seed);
    for (int t = 0; t < 150; ++t) {
      episode.act(network, at::zeros({4}));
      episode.reward(1);
    }
    return episode.actions();
  };
  EXPECT_TRUE(at::equal(actions(12), actions(12)));
  EXPECT_FALSE(at::equal(actions(12), actions(13)));
}

TEST(trajectory, keeps_states_when_the_caller_reuses_its_tensor) {
  policy network(generator(14));
  trajectory episode(15);
  const auto state = at::ones({4});
  episode.act(network, state);
  state.zero_();
  EXPECT_TRUE(at::equal(episode.states(), at::ones({1, 4})));
}

TEST(trajectory, refuses_calls_out_of_order_and_foreign_states) {
  policy network(generator(16));
  trajectory episode(17);
  EXPECT_THROW(episode.reward(1), troupe::invalid_argument);
  EXPECT_THROW(episode.act(network, at::zeros({3})), troupe::invalid_argument);
  EXPECT_THROW(episode.act(network, at::zeros({4}, at::kDouble)), troupe::invalid_argument);
  EXPECT_THROW(episode.act(network, at::Tensor()), troupe::invalid_argument);
  episode.act(network, at::zeros({4}));
  EXPECT_THROW(episode.act(network, at::zeros({4})), troupe::invalid_argument);
  episode.reward(1);
  EXPECT_THROW(episode.reward(1), troupe::invalid_argument);
}

}  // namespace
