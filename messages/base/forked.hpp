#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace troupe {

/// What a forked process may do with its copy of the runtime. It has none of its parent's threads,
/// its locks are as they were at the fork, and the network connections are its parent's: using them
/// could block for ever, or send in the parent's name. So a process that was forked while nodes
/// existed uses no node again, neither its parent's nor a new one; it may start another program
/// (exec). Programs that are started by posix_spawn, popen or system are not affected.
namespace forked {

namespace detail {

inline constinit std::atomic<bool> from_nodes{false};
inline constinit std::atomic<std::uint32_t> generation{0};

}  // namespace detail

/// Whether this process was forked from one that had nodes. Hot path: one load.
inline bool from_nodes() noexcept { return detail::from_nodes.load(std::memory_order_relaxed); }

/// Throws not_initialized if it was.
void check();

/// Ends this process, which has returned from a handler that its parent runs as well: status 70
/// (EX_SOFTWARE), and a line on standard error that names `what`. No destructor runs.
[[noreturn]] void end_handler(std::string_view what) noexcept;

/// While it exists, this process counts as one with nodes. A node that has been shut down counts
/// too: others may still have references to it and hold its locks.
class resident {
public:
  resident();
  ~resident();
  resident(const resident&) = delete;
  resident& operator=(const resident&) = delete;
};

/// The process in which it was made.
class home {
public:
  home();

  /// False in a process that was forked since.
  bool here() const noexcept {
    return generation_ == detail::generation.load(std::memory_order_relaxed);
  }

private:
  std::uint32_t generation_;
};

/// Makes forked processes close `descriptor` as they start: a child with a copy that outlives its
/// parent would keep a port, a lock or a connection that no process serves. Descriptors above
/// 1,048,575 are kept; so are those of the moment between their creation and this call, or between
/// `keep_in_children` and their closing, if another thread forks just then. Thread-safe and
/// lock-free.
void close_in_children(int descriptor) noexcept;

/// The descriptor is about to be closed, or has another owner from now on.
void keep_in_children(int descriptor) noexcept;

}  // namespace forked

}  // namespace troupe
