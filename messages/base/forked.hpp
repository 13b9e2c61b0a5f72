#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace troupe {

/// What a forked process may do with what it has a copy of. It has none of its parent's threads,
/// its locks are as they were at that moment, and the network is its parent's: who touched any of
/// it could wait for ever, or speak in the parent's name. So a process that was forked while nodes
/// lived uses no node again, neither theirs nor one of its own; another program may be started in
/// its place (exec). Programs that are started by posix_spawn, popen or system never notice.
namespace forked {

namespace detail {

inline constinit std::atomic<bool> from_nodes{false};
inline constinit std::atomic<std::uint32_t> generation{0};

}  // namespace detail

/// Was this process forked from one in which nodes lived? Hot path: one load.
inline bool from_nodes() noexcept { return detail::from_nodes.load(std::memory_order_relaxed); }

/// Throws not_initialized, if it was.
void check();

/// Ends this process, which has come to the end of a handler that its parent runs as well: status
/// 70 (EX_SOFTWARE), and a line on standard error that names `what`. No destructor runs.
[[noreturn]] void end_handler(std::string_view what) noexcept;

/// While it lives, this process has a node: also one that has been shut down, which others may
/// still have references to, and whose locks they may hold.
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

/// Has a forked process close `descriptor` as it begins: with a copy of it, a child that outlives
/// its parent would keep a port, a lock or a connection that nobody serves. Descriptors above
/// 1,048,575 are kept, and those of the moment between their making and this, or between
/// `keep_in_children` and their closing, if another thread forks just then. Thread-safe, without a
/// lock.
void close_in_children(int descriptor) noexcept;

/// The descriptor is about to be closed, or is another's from now on.
void keep_in_children(int descriptor) noexcept;

}  // namespace forked

}  // namespace troupe
