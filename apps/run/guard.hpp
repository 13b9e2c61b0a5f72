#pragma once

#include <functional>

namespace troupe::launcher {

/// Runs `supervise` in a process of its own and returns its exit code.
///
/// This process, the one that the user knows, only passes signals on, as bytes of the descriptor
/// that `supervise` is given. Either of the two can be killed with SIGKILL: the other one then ends
/// everything below, orphans and daemons included.
int guarded(const std::function<int(int control)>& supervise);

}  // namespace troupe::launcher
