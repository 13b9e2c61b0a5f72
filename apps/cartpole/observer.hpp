#pragma once

#include "troupe/apps/cartpole/agent.hpp"

namespace cartpole {

/// Owns an environment and plays episodes in it with the actions of an agent.
using observer = troupe::actor<troupe::answers<run_episode, double>>;

/// The behaviour of observer number `id` (from 0) of `policy`, whose environment starts from
/// `seed`. At each step it asks for an action, takes it, and reports what it earned, waiting for
/// the agent both times.
observer::behavior_type observe(observer::pointer self, agent policy, std::uint32_t id,
                                std::uint64_t seed);

}  // namespace cartpole
