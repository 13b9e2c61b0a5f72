#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

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

}  // namespace cartpole
