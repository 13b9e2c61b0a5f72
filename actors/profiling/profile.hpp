#pragma once

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe {

class node;

namespace detail {

class collecting;
class event_collector;

}  // namespace detail

/// While it lives, what the thread that has made it does with libtorch is recorded, and the calls
/// of functions and operators that it makes (`rpc_sync`, `rpc_async`, `remote`; not messages to
/// actors): each as a range, until its answer has come, and in it what its callee has done, with
/// the callee's rank. That is recorded there while the call waits for its answer, and comes with
/// it, also of calls that the callee makes in turn. It ends early in a coroutine that waits: the
/// thread goes on with something else. The first 2^20 events are kept.
class profile {
public:
  /// A profile of the calling thread, whose events are said to be of node `of`. Throws
  /// invalid_argument when the thread is profiled already, by libtorch's profilers too.
  explicit profile(const node& of, const profile_options& what = {});
  ~profile();
  profile(const profile&) = delete;
  profile& operator=(const profile&) = delete;

  /// Ends it. The events by their start; of calls, those that have been answered. Empty the second
  /// time. Throws invalid_argument on another thread than the one that has made it.
  std::vector<profile_event> stop();

private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<detail::event_collector> events_;
  std::unique_ptr<detail::collecting> here_;
};

}  // namespace troupe
