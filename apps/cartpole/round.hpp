#pragma once

#include <cstdint>

namespace cartpole {

/// The result of a round of episodes, one from every observer.
struct round_result {
  double last_reward = 0;     ///< the least of the observers' episode rewards
  double running_reward = 0;  ///< 0.05 * last_reward + 0.95 * the running reward before
  std::int64_t steps = 0;     ///< environment steps of all observers together
};

}  // namespace cartpole
