#pragma once

#include "troupe/actors/groups/schedules/schedule.hpp"

namespace troupe::groups::schedules {

// Schedules by which every rank sends each rank a block of its own: n bytes in all blocks of one
// rank, P ranks. Blocks are numbered by distance: at first, block d of a rank is for the one that
// comes d ranks later, in a circle; at the end it is from the one d ranks before. Block 0 stays.

/// Bruck's (1997): blocks travel together, those whose number has a bit by that many ranks, so
/// there are few messages and each byte is sent ceil(log2 P) / 2 times. Where P is a power of two
/// (alpha + beta n / 2) log2 P.
schedule bruck_all_to_all(int rank, int ranks);

/// Pairwise exchange: each block goes straight to whom it is for.
/// (alpha + beta n / P) (P - 1); alpha once if the messages leave together.
schedule pairwise_all_to_all(int rank, int ranks);

}  // namespace troupe::groups::schedules
