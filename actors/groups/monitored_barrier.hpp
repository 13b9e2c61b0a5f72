#pragma once

#include <chrono>

#include "troupe/actors/groups/process_group/process_group.hpp"

namespace troupe {

/// A barrier that says who is missing. Rank 0 waits for the others in order, for `timeout` in all
/// (0: the group's), and throws collective_timeout: "monitored_barrier, sequence number 1 of group
/// 'world', on rank 0: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms" for the first
/// that is missing, or, if it is to `wait_all_ranks`, "Ranks 1, 2 failed ...". The others throw
/// collective_timeout as well: "...: Rank 2 successfully reached monitoredBarrier, but received
/// errors while waiting for send/recv from rank 0". The group is as good as before. In its turn
/// after collectives that were started; monitored barriers have sequence numbers of their own.
void monitored_barrier(const process_group& group, std::chrono::milliseconds timeout = {},
                       bool wait_all_ranks = false);

}  // namespace troupe
