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

/// While it lives, it records what its thread does with libtorch, and the calls of functions and
/// operators that the thread makes (`rpc_sync`, `rpc_async`, `remote`; not messages to actors).
/// Each call is a range until its answer has come, and contains what its callee has done, with the
/// callee's rank: the callee records that while it serves the call, and sends it with the answer;
/// so do nodes that the callee calls in turn. In a coroutine it ends early, when that waits and its
/// thread goes on with something else. The first 2^20 events are kept.
class profile {
public:
  /// Profiles the calling thread. Its events bear the rank of node `of`. Throws invalid_argument if
  /// the thread is profiled already, by libtorch's profilers too.
  explicit profile(const node& of, const profile_options& what = {});
  ~profile();
  profile(const profile&) = delete;
  profile& operator=(const profile&) = delete;

  /// Ends it. Returns the events by their start; of calls, those that have been answered. Empty the
  /// second time. Throws invalid_argument on any thread but the one that has made it.
  std::vector<profile_event> stop();

private:
  const std::thread::id thread_ = std::this_thread::get_id();
  std::shared_ptr<detail::event_collector> events_;
  std::unique_ptr<detail::collecting> here_;
};

}  // namespace troupe
