#include "troupe/actors/groups/schedules/broadcasts.hpp"

#include <algorithm>

#include "troupe/actors/groups/schedules/gathers.hpp"

namespace troupe::groups::schedules {

namespace {

int number_of(int rank, int ranks, int root) { return (rank - root + ranks) % ranks; }

}  // namespace

schedule tree_broadcast(int rank, int ranks, int root) {
  schedule out{1, {}};
  const int mine = number_of(rank, ranks, root);
  // Those below `distance` have it.
  for (int distance = 1; distance < ranks; distance *= 2) {
    if (mine < distance && mine + distance < ranks)
      out.steps.push_back({(rank + distance) % ranks, nobody, {0, 1}, {}});
    else if (mine >= distance && mine < 2 * distance)
      out.steps.push_back({nobody, (rank + ranks - distance) % ranks, {}, {0, 1}});
  }
  return out;
}

// Blocks are numbered as ranks are: from the root on.
schedule scatter_broadcast(int rank, int ranks, int root) {
  schedule out{ranks, {}};
  const int mine = number_of(rank, ranks, root);
  const auto at = [&](int number) { return (number + root) % ranks; };
  // Who has `span` blocks from its own on gives the upper half of them away.
  for (int half = 1 << (log2_up(ranks) - (ranks > 1)); half > 0 && ranks > 1; half /= 2) {
    const int below = mine % (2 * half);
    if (below == 0 && mine + half < ranks)
      out.steps.push_back(
          {at(mine + half), nobody, {mine + half, std::min(half, ranks - mine - half)}, {}});
    else if (below == half)
      out.steps.push_back({nobody, at(mine - half), {}, {mine, std::min(half, ranks - mine)}});
  }
  // The root has all: it gets nothing around the ring, and the one before it passes nothing on.
  for (auto one : ring_all_gather(mine, ranks).steps) {
    one.to = mine == ranks - 1 ? nobody : at(one.to);
    one.from = mine == 0 ? nobody : at(one.from);
    if (one.to == nobody) one.sent = {};
    if (one.from == nobody) one.received = {};
    out.steps.push_back(one);
  }
  return out;
}

schedule chain_broadcast(int rank, int ranks, int root, int pieces) {
  schedule out{pieces, {}};
  const int mine = number_of(rank, ranks, root);
  const bool first = mine == 0, last = mine == ranks - 1;
  // A piece is received in one step and passed on in the next one.
  for (int i = 0; i <= pieces && ranks > 1; ++i) {
    step one;
    if (!first && i < pieces) {
      one.from = (rank + ranks - 1) % ranks;
      one.received = {i, 1};
    }
    const int sent = first ? i : i - 1;
    if (!last && sent >= 0 && sent < pieces) {
      one.to = (rank + 1) % ranks;
      one.sent = {sent, 1};
    }
    if (one.to != nobody || one.from != nobody) out.steps.push_back(one);
  }
  return out;
}

}  // namespace troupe::groups::schedules
