#pragma once

#include "troupe/apps/batch/agent.hpp"

namespace batch {

/// What an observer is to do.
struct observation_task {
  troupe::rref<agent> policy;
  std::uint32_t observer;  ///< its number, from 0
  std::uint64_t seed;      ///< of the job; with the number that of the environment
  std::int32_t steps;
  bool together;  ///< with the other observers, or a forward pass for each state
};
TROUPE_MESSAGE(observation_task, policy, observer, seed, steps, together)

/// Its result.
struct observation_result {
  std::int64_t episodes;
};
TROUPE_MESSAGE(observation_result, episodes)

/// Plays CartPole on this node with the actions of an agent, one episode after the other.
observation_result observe(const observation_task& task);

}  // namespace batch
