#pragma once

#include <sys/types.h>

#include <cstddef>
#include <vector>

namespace troupe::launcher {

/// A process below this one.
struct descendant {
  pid_t pid;
  pid_t parent;
  pid_t group;
};

/// All processes below this one, including children's children and zombies. Read from /proc, so it
/// misses what is forked meanwhile.
std::vector<descendant> descendants();

/// Makes this process the parent of orphans below it (PR_SET_CHILD_SUBREAPER).
void adopt_orphans();

/// Kills everything below this process and waits until it is gone, at most about five seconds (a
/// process that sits in the kernel cannot be killed). Reaps all children. SIGCHLD must be blocked.
/// Returns how many are left.
std::size_t kill_descendants();

}  // namespace troupe::launcher
