#pragma once

#include <troupe/troupe.hpp>

#include <vector>

#include "troupe/apps/cartpole/observer.hpp"

namespace cartpole {

/// The agent on this node and its observers on others, as one training job.
class job {
public:
  /// Spawns the agent here and observer i on rank i + 1 (this node being rank 0), for as many
  /// observers as `chosen` says; observer i's environment starts from seed + 1 + i.
  ///
  /// Throws troupe::invalid_argument when there are fewer ranks than that.
  job(const troupe::node& node, const hyperparameters& chosen);

  /// Has every observer play one episode, all at once, then updates the policy.
  round_result play_round();

private:
  agent policy_;
  std::vector<observer> observers_;
};

/// How many observers a run of `world_size` ranks has: `asked`, or every rank but the agent's when
/// that is 0. Throws troupe::invalid_argument when there are not so many ranks.
std::size_t count_observers(std::size_t asked, std::size_t world_size);

}  // namespace cartpole
