#pragma once

#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/profiling/profile_event.hpp"

namespace troupe::detail {

/// Now, in nanoseconds since 1970: the clock of libtorch's profilers.
std::int64_t profile_time() noexcept;

/// Where the events of a profile gather. Thread-safe. Owned by shared pointers: ranges that have
/// begun hold it until they end.
class event_collector : public std::enable_shared_from_this<event_collector> {
public:
  event_collector(std::uint32_t node, const profile_options& what) : node(node), what(what) {}

  void add(profile_event&& one);
  void add(const std::vector<profile_event>& many);

  /// What there is, by start; what comes later is dropped.
  std::vector<profile_event> close();

  const std::uint32_t node;  ///< whose threads it collects from
  const profile_options what;

private:
  std::mutex mutex_;
  std::vector<profile_event> events_;
  bool closed_ = false;
};

/// While it lives, ranges that libtorch records on the calling thread go to a collector. Nested, to
/// the innermost one, with the shapes of the outermost; memory is counted where no other profiler
/// has the thread.
class collecting {
public:
  explicit collecting(std::shared_ptr<event_collector> into);
  ~collecting();
  collecting(const collecting&) = delete;
  collecting& operator=(const collecting&) = delete;

  /// The calling thread's; nullptr: none.
  static event_collector* here() noexcept;

private:
  const std::shared_ptr<event_collector> into_;
  event_collector* const before_;
  at::CallbackHandle callback_ = at::INVALID_CALLBACK_HANDLE;
  std::optional<c10::DebugInfoGuard> memory_;
};

}  // namespace troupe::detail
