#include "troupe/actors/groups/schedules/gathers.hpp"

#include <algorithm>

namespace troupe::groups::schedules {

schedule doubling_all_gather(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int partner = rank ^ distance;
    // What a rank has are the blocks of those whose numbers differ from its own below `distance`.
    const auto held = [&](int of) { return block_set{of / distance * distance, distance}; };
    out.steps.push_back({partner, partner, held(rank), held(partner)});
  }
  return out;
}

schedule bruck_all_gather(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int count = std::min(distance, ranks - distance);
    const int from = (rank + distance) % ranks;
    out.steps.push_back({(rank + ranks - distance) % ranks, from, {rank, count}, {from, count}});
  }
  return out;
}

schedule ring_all_gather(int rank, int ranks) {
  schedule out{ranks, {}};
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  for (int i = 0; i + 1 < ranks; ++i)
    out.steps.push_back(
        {next, before, {(rank + ranks - i) % ranks, 1}, {(before + ranks - i) % ranks, 1}});
  return out;
}

schedule direct_all_gather(int rank, int ranks) {
  schedule out{ranks, {}};
  for (int i = 1; i < ranks; ++i) {
    const int from = (rank + ranks - i) % ranks;
    out.steps.push_back({(rank + i) % ranks, from, {rank, 1}, {from, 1}});
  }
  return out;
}

schedule dissemination_barrier(int rank, int ranks) {
  schedule out{1, {}};
  for (int distance = 1; distance < ranks; distance *= 2)
    out.steps.push_back({(rank + distance) % ranks, (rank + ranks - distance) % ranks});
  return out;
}

}  // namespace troupe::groups::schedules
