#pragma once

#include <optional>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe::detail {

/// What libtorch's profiler of the calling thread, enabled by enableProfilerLegacy, wants; empty:
/// it is another one, or none.
std::optional<profile_options> legacy_profiler_here();

/// Adds events of other nodes to it, as torch's RPC does: those of each node are a list of their
/// own, with pushes and pops in order and the node's id. Pre: the thread has libtorch's debug info
/// of one that had it; that may have ended since.
void add_to_legacy_profiler(const std::vector<profile_event>& events);

}  // namespace troupe::detail
