#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <troupe/collectives.hpp>

#include "troupe/apps/cartpole/hyperparameters.hpp"
#include "troupe/apps/cartpole/round.hpp"
#include "troupe/messages/codec/type_registration.hpp"

namespace cartpole {

/// Observer to agent: which action in this state (float32 [4])? Answered with 0 or 1.
struct select_action {
  std::uint32_t observer;  ///< its number, from 0
  at::Tensor state;
};
TROUPE_MESSAGE_EXTERN(select_action, observer, state)

/// Observer to agent: what the last action earned.
struct report_reward {
  std::uint32_t observer;
  double reward;
};
TROUPE_MESSAGE_EXTERN(report_reward, observer, reward)

/// To an observer: play one episode of at most so many steps. Answered with its total reward.
struct run_episode {
  int max_steps;
};
TROUPE_MESSAGE_EXTERN(run_episode, max_steps)

/// To the agent, when every observer has played: update the policy. Answered with round_result.
struct finish_episode {};
TROUPE_MESSAGE_EXTERN(finish_episode)

TROUPE_MESSAGE_EXTERN(round_result, last_reward, running_reward, steps)

/// To an observer that averages: these are all of them. Answered when it has the weights of the
/// first one.
struct begin_averaging {
  troupe::actor_group observers;
};
TROUPE_MESSAGE_EXTERN(begin_averaging, observers)

/// To an observer that averages: train for so many episodes, then average the policy with the
/// others'. Answered with the mean reward.
struct train_and_average {
  int episodes;
};
TROUPE_MESSAGE_EXTERN(train_and_average, episodes)

/// To an observer that averages: the parameters of its policy, a copy.
struct read_parameters {};
TROUPE_MESSAGE_EXTERN(read_parameters)

TROUPE_MESSAGE_EXTERN(hyperparameters, seed, observers, gamma, learning_rate)

}  // namespace cartpole
