#pragma once

#include <vector>

#include "troupe/apps/cartpole/environment.hpp"
#include "troupe/apps/cartpole/learner.hpp"

namespace cartpole {

/// The environments of `observers` observers: observer i starts from seed + 1 + i.
std::vector<environment> make_environments(std::uint64_t seed, std::size_t observers);

/// Plays one episode in every environment with plain calls to `agent`, then updates the policy.
round_result play_round(learner& agent, std::vector<environment>& environments);

}  // namespace cartpole
