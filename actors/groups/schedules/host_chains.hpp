#pragma once

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

// Schedules between the hosts of a group that has as many ranks on each: of the ranks with one
// number on theirs, which are called by their host here. All do the same at once, each with a slice
// of its own of every stripe, and in between the ranks of a host exchange slices in its memory.
// With H hosts, k stripes, and n bytes of a rank's slices. A broadcast goes by chain_broadcast.

/// Stripes are combined down the chain of hosts, in its order, and results come back up. So many
/// stripes leave before the first result has come that all hosts are busy. A host sends 2 n bytes,
/// the first and the last one n; (alpha + beta n / k) (2 H + 2 k - 5) from two stripes and three
/// hosts on, and with two hosts (alpha + beta n / k) (k + 4) from five stripes on.
schedule chain_all_reduce(int host, int hosts, int stripes);

/// Stripes of a host are blocks one after the other, its first is number host * stripes. Each sends
/// its own to every other host, two before the first one has come.
/// (alpha + beta n / k) (H - 1) (k + 2) from three stripes on.
schedule striped_all_gather(int host, int hosts, int stripes);

}  // namespace troupe::groups::schedules
