#pragma once

#include <atomic>

namespace troupe::transport {

/// What a forked process is told of arenas. Their memory stays with the process that made them: a
/// child that shared it would write into its parent's tensors. In the child the addresses are
/// taken and cannot be accessed. Touching them prints a line on standard error that says so, and
/// is then what a wrong access is: SIGSEGV, for the handler that the program had, or its end.
/// Programs started by exec, posix_spawn, popen or system are not affected.
namespace fork_guard {

namespace detail {

inline constinit std::atomic<bool> off{false};

}  // namespace detail

/// Whether this process was forked from one that had arenas: it has none, and can make none. Hot
/// path: one load.
inline bool off() noexcept { return detail::off.load(std::memory_order_relaxed); }

/// From now on forked processes are guarded against the memory in the arena table, which the system
/// does not copy to them (MADV_DONTFORK). Thread-safe.
void watch() noexcept;

}  // namespace fork_guard

}  // namespace troupe::transport
