#include "troupe/actors/groups/schedules/exchanges.hpp"

namespace troupe::groups::schedules {

schedule bruck_all_to_all(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int distance = 1; distance < ranks; distance *= 2) {
    const block_set moved{0, ranks, distance};
    out.steps.push_back(
        {(rank + distance) % ranks, (rank + ranks - distance) % ranks, moved, moved});
  }
  return out;
}

schedule pairwise_all_to_all(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int d = 1; d < ranks; ++d)
    out.steps.push_back({(rank + d) % ranks, (rank + ranks - d) % ranks, {d, 1}, {d, 1}});
  return out;
}

}  // namespace troupe::groups::schedules
