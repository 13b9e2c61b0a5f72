#pragma once

#include <optional>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe::detail {

/// What libtorch's legacy profiler of the calling thread (enableProfilerLegacy) wants recorded;
/// empty: there is no profiler, or one of another kind.
std::optional<profile_options> legacy_profiler_here();

/// Adds events of other nodes to the legacy profiler, as torch's RPC does: those of each node are a
/// list of their own, with pushes and pops in order, and the node's id. Pre: the calling thread has
/// the debug info of a thread that was profiled; the profiler may have ended since.
void add_to_legacy_profiler(const std::vector<profile_event>& events);

}  // namespace troupe::detail
