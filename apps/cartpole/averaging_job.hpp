#pragma once

#include <troupe/troupe.hpp>

#include <vector>

#include "troupe/apps/cartpole/averaging_observer.hpp"

namespace cartpole {

/// Observers that train policies of their own and average them: a training job without an agent.
class averaging_job {
public:
  /// Spawns as many observers as `chosen` says on all ranks but this one, in turns; on this one if
  /// there is no other. Each trains for `episodes` episodes between two averages.
  averaging_job(const troupe::node& node, const hyperparameters& chosen, int episodes);

  /// Has all observers train at once, and average. The rewards are means over the episodes.
  round_result play_round();

  /// The parameters of each observer's policy.
  std::vector<std::vector<at::Tensor>> parameters() const;

private:
  const int episodes_;
  std::vector<averaging_observer> observers_;
  double running_reward_ = 0;
};

/// How many observers average in a run of `world_size` ranks: `asked`; if that is 0, one on each
/// rank but this one, and at least two.
std::size_t count_averaging_observers(std::size_t asked, std::size_t world_size);

}  // namespace cartpole
