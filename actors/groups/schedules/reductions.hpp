#pragma once

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

// Schedules by which the data of all ranks are combined. With n bytes on each of P ranks. In which
// order an element's values are combined differs by algorithm and by element, but for `direct`.

/// All ranks get all of it by recursive doubling, with a step before and after for the ranks beyond
/// a power of two (Thakur, Rabenseifner, Gropp 2005). (alpha + (beta + gamma) n) log2 P; otherwise
/// one alpha + (beta + gamma) n more, and one alpha + beta n.
schedule doubling_all_reduce(int rank, int ranks);

/// Rabenseifner's: recursive halving, by which each rank combines its part, and recursive doubling,
/// by which all get the parts. 2 alpha log2 P + (2 beta + gamma) n (P - 1) / P; beyond a power of
/// two as above.
schedule halving_doubling_all_reduce(int rank, int ranks);

/// Block r to rank r, around a ring (Patarasuk, Yuan 2009).
/// (alpha + (beta + gamma) n / P) (P - 1).
schedule ring_reduce_scatter(int rank, int ranks);

/// That and an all_gather around the ring: the least bytes that are possible.
/// (2 alpha + (2 beta + gamma) n / P) (P - 1).
schedule ring_all_reduce(int rank, int ranks);

/// Pairwise exchange: each rank sends every other its block of it, one after the other, and
/// combines those that it gets: of all these the only one that can combine in the order of the
/// ranks. (alpha + (beta + gamma) n / P) (P - 1); alpha once if the messages leave together.
schedule pairwise_reduce_scatter(int rank, int ranks);

/// That, and that each rank sends its result to every other.
/// (2 alpha + (2 beta + gamma) n / P) (P - 1).
schedule pairwise_all_reduce(int rank, int ranks);

}  // namespace troupe::groups::schedules
