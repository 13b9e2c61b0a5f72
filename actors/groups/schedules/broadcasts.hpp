#pragma once

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

// Schedules by which all ranks get the data of `root`: n bytes, P ranks. Ranks count from the root
// on.

/// A binomial tree. (alpha + beta n) ceil(log2 P).
schedule tree_broadcast(int rank, int ranks, int root);

/// The root's blocks go down a binomial tree, each rank's to it, and then along a ring to all the
/// others: van de Geijn's (M. Barnett and others, "Interprocessor collective communication library
/// (InterCom)", 1994). Where P is a power of two alpha (log2 P + P - 1) + 2 beta n (P - 1) / P.
schedule scatter_broadcast(int rank, int ranks, int root);

/// Down a chain, in `pieces`: while one is passed on, the next one is received. The most at once
/// where there are many bytes for each rank.
/// (alpha + beta n / pieces) (P - 2 + pieces).
schedule chain_broadcast(int rank, int ranks, int root, int pieces);

}  // namespace troupe::groups::schedules
