#pragma once

#include <array>
#include <cstdint>

#include "troupe/apps/cartpole/numpy_random.hpp"

namespace cartpole {

/// Cart position (m), cart velocity (m/s), pole angle (rad), pole's angular velocity (rad/s).
using state = std::array<double, 4>;

/// What the policy sees: the state, rounded to single precision.
using observation = std::array<float, 4>;

/// The running reward at which CartPole-v1 counts as solved.
inline constexpr double reward_threshold = 475.0;

/// CartPole-v1 truncates an episode after this many steps.
inline constexpr int max_episode_steps = 500;

/// What one step led to.
struct transition {
  double reward;    ///< 1 for every step, the last one included
  bool terminated;  ///< the pole fell or the cart left the track
  bool truncated;   ///< the episode reached max_episode_steps

  bool done() const noexcept { return terminated || truncated; }
};

/// Gymnasium's CartPole-v1, to the last bit of double arithmetic.
///
/// States, rewards and both flags equal those of `gymnasium.make("CartPole-v1")` 1.x, also the
/// initial states that follow from a seed. Not thread-safe; copies are independent.
class environment {
public:
  /// Seeds the initial states, as the first `reset(seed=seed)` does; call reset() before step().
  explicit environment(std::uint64_t seed) : random_(seed) {}

  /// Starts an episode from the next initial state of the stream, uniform in [-0.05, 0.05).
  observation reset();

  /// Starts an episode from `initial`, whatever the seed.
  observation reset(const state& initial);

  /// Pushes the cart to the left (action 0) or to the right (action 1) for 0.02 s.
  ///
  /// Throws troupe::invalid_argument for another action or when no episode runs.
  transition step(std::int64_t action);

  const state& current() const noexcept { return state_; }
  observation observe() const noexcept;

private:
  numpy_random random_;
  state state_{};
  int steps_ = 0;
  bool running_ = false;
};

}  // namespace cartpole
