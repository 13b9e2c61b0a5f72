#include "troupe/apps/cartpole/learner.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "troupe/apps/cartpole/numpy_random.hpp"
#include "troupe/apps/cartpole/policy.hpp"
#include "troupe/apps/cartpole/trajectory.hpp"
#include "troupe/apps/common/initial_weights.hpp"
#include "troupe/messages/base/error.hpp"

namespace cartpole {

namespace {

constexpr double epsilon = std::numeric_limits<float>::epsilon();

}  // namespace

struct learner::parts {
  explicit parts(const hyperparameters& chosen)
      : gamma(chosen.gamma),
        network(common::make_generator(chosen.seed)),
        optimizer(network.parameters(), torch::optim::AdamOptions(chosen.learning_rate)) {
    if (chosen.observers == 0)
      throw troupe::invalid_argument("an agent needs at least one observer");
    numpy_random seeds(chosen.seed);
    for (std::size_t i = 0; i < chosen.observers; ++i) trajectories.emplace_back(seeds.next());
  }

  double gamma;
  policy network;
  torch::optim::Adam optimizer;
  std::vector<trajectory> trajectories;
  double running_reward = 0;
};

learner::learner(const hyperparameters& chosen) : parts_(std::make_unique<parts>(chosen)) {}

learner::~learner() = default;

policy& learner::network() noexcept { return parts_->network; }

const trajectory& learner::episode(std::size_t observer) { return of(observer); }

std::int64_t learner::select_action(std::size_t observer, const at::Tensor& state) {
  return of(observer).act(parts_->network, state);
}

void learner::report_reward(std::size_t observer, double reward) { of(observer).reward(reward); }

round_result learner::finish_episode() {
  parts_->optimizer.zero_grad();
  loss().backward();
  parts_->optimizer.step();

  round_result result;
  result.last_reward = std::numeric_limits<double>::infinity();
  for (trajectory& episode : parts_->trajectories) {
    const auto rewards = episode.rewards();
    const double total = std::accumulate(rewards.begin(), rewards.end(), 0.0);
    result.last_reward = std::min(result.last_reward, total);
    result.steps += static_cast<std::int64_t>(episode.steps());
    episode.clear();
  }
  parts_->running_reward = 0.05 * result.last_reward + 0.95 * parts_->running_reward;
  result.running_reward = parts_->running_reward;
  return result;
}

at::Tensor learner::loss() {
  std::vector<at::Tensor> states, masks, actions;
  for (std::size_t i = 0; i < parts_->trajectories.size(); ++i) {
    const trajectory& episode = parts_->trajectories[i];
    if (episode.steps() == 0 || episode.steps() != episode.rewards().size())
      throw troupe::invalid_argument("finish_episode was called before observer " +
                                     std::to_string(i) + " had finished its episode");
    states.push_back(episode.states());
    masks.push_back(episode.masks());
    actions.push_back(episode.actions());
  }
  const at::Tensor probabilities = parts_->network.forward(at::cat(states), at::cat(masks));
  const at::Tensor log_probs = log_probabilities(probabilities, at::cat(actions));
  return -(log_probs * normalized(returns()).unsqueeze(1)).sum();
}

trajectory& learner::of(std::size_t observer) {
  if (observer >= parts_->trajectories.size())
    throw troupe::invalid_argument("there is no observer " + std::to_string(observer) +
                                   ": the agent was made for " +
                                   std::to_string(parts_->trajectories.size()));
  return parts_->trajectories[observer];
}

at::Tensor learner::returns() const {
  std::vector<double> all;
  for (const trajectory& episode : parts_->trajectories) {
    const auto own = discounted_returns(episode.rewards(), parts_->gamma);
    all.insert(all.end(), own.begin(), own.end());
  }
  return at::tensor(all, at::kFloat);
}

std::vector<double> discounted_returns(std::span<const double> rewards, double gamma) {
  std::vector<double> result(rewards.size());
  double later = 0;
  for (std::size_t t = rewards.size(); t-- > 0;) result[t] = later = rewards[t] + gamma * later;
  return result;
}

at::Tensor normalized(const at::Tensor& returns) {
  // The standard deviation of a single return is not defined; it then carries no information.
  if (returns.numel() < 2) return at::zeros_like(returns);
  return (returns - returns.mean()) / (returns.std() + epsilon);
}

at::Tensor log_probabilities(const at::Tensor& probabilities, const at::Tensor& actions) {
  const at::Tensor normal = probabilities / probabilities.sum(1, true);
  return normal.clamp(epsilon, 1 - epsilon).log().gather(1, actions);
}

}  // namespace cartpole
