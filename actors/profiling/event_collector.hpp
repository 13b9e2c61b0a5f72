#pragma once

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe::detail {

/// Now, in nanoseconds since 1970: the clock of libtorch's profilers.
std::int64_t profile_time() noexcept;

/// How many events a profile keeps: some hundred bytes each.
inline constexpr std::size_t most_events = std::size_t{1} << 20;

/// Collects the events of a profile, up to a limit. Thread-safe. Owned by shared pointers: ranges
/// that have begun hold it until they end.
class event_collector : public std::enable_shared_from_this<event_collector> {
public:
  /// `asks_callees`: the callees of calls that are made meanwhile record too.
  event_collector(std::uint32_t node, const profile_options& what, bool asks_callees = true,
                  std::size_t most = most_events)
      : node(node), what(what), asks_callees(asks_callees), most_(most) {}

  void add(profile_event&& one);
  void add(const std::vector<profile_event>& many);

  /// Returns the events by start; later ones are dropped. Logs how many were over the limit.
  std::vector<profile_event> close();

  const std::uint32_t node;  ///< the rank of the node from whose threads it collects
  const profile_options what;
  const bool asks_callees;

  /// Has collecting ended?
  bool abandoned() const noexcept { return abandoned_.load(std::memory_order_relaxed); }

private:
  friend class collecting;

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<profile_event> events_;
  std::size_t left_out_ = 0;
  bool closed_ = false;
  // Set when the collecting thread leaves, or when `collecting` ends on another thread, whichever
  // is first. The second of them releases `kept_`, which the thread may look at until then.
  std::atomic<bool> abandoned_{false};
  std::shared_ptr<event_collector> kept_;
};

/// While it lives, ranges that libtorch records on the calling thread go to a collector; if nested,
/// to the innermost one. Memory is counted unless another profiler is active on the thread. It ends
/// early when the thread ends or turns to another handler (`leave`), as it does where a coroutine
/// waits, and may be destroyed on any thread.
class collecting {
public:
  explicit collecting(std::shared_ptr<event_collector> into);
  ~collecting();
  collecting(const collecting&) = delete;
  collecting& operator=(const collecting&) = delete;

  /// The calling thread's collector; nullptr: none.
  static event_collector* here() noexcept;

  /// The calling thread turns to something else, and collects nothing. Hot path: a load.
  static void leave() noexcept;

  /// Switches the calling thread to another collector, or with nullptr to none, without beginning
  /// or ending anything. Returns the one before.
  static event_collector* turn_to(event_collector* into) noexcept;

private:
  /// Detaches the calling thread from its collector. Of nested ones, which end on the thread where
  /// they began, from the innermost.
  static void let_go() noexcept;

  const std::shared_ptr<event_collector> into_;
  const void* const thread_;
  event_collector* const before_;
  bool registered_ = false;
};

}  // namespace troupe::detail
