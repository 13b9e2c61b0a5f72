#pragma once

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

// Schedules by which every rank gets the block of every rank. Block r is rank r's, and there at the
// beginning. With n bytes of all blocks together, on P ranks.

/// Recursive doubling: the distance doubles with each step, and so does what is sent. P is a power
/// of two. R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
/// operations in MPICH", 2005. alpha log2 P + beta n (P - 1) / P.
schedule doubling_all_gather(int rank, int ranks);

/// J. Bruck and others, "Efficient algorithms for all-to-all communications in multiport
/// message-passing systems", 1997: the same for any P, to one side only.
/// alpha ceil(log2 P) + beta n (P - 1) / P.
schedule bruck_all_gather(int rank, int ranks);

/// A ring: each passes on to the next what it got from the one before. For few interfaces the least
/// contention. P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", 2009. alpha (P - 1) + beta n (P - 1) / P.
schedule ring_all_gather(int rank, int ranks);

/// Each sends its own block to every other, which need not wait for one another.
/// alpha (P - 1) + beta n (P - 1) / P; if the messages leave together, alpha once.
schedule direct_all_gather(int rank, int ranks);

/// A barrier: Bruck's steps without data (D. Hensgen, R. Finkel, U. Manber, "Two algorithms for
/// barrier synchronization", 1988). alpha ceil(log2 P).
schedule dissemination_barrier(int rank, int ranks);

}  // namespace troupe::groups::schedules
