#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe {

namespace detail {

class event_collector;

/// Is there a server_process_global_profile? Hot path: loaded for each call.
inline constinit std::atomic<bool> process_is_profiled{false};

/// Its collector; null: there is none.
std::shared_ptr<event_collector> process_collector();

}  // namespace detail

/// While it lives, it records all calls and messages to actors that this process serves, on all
/// threads of all its nodes: for each a range, "rpc#f(a -> b)" or "actor#message(a -> b)", and what
/// libtorch runs in it on its thread; of a coroutine up to its first wait. Calls that are answered
/// before `stop` are in it, unfinished ones are not. One at a time in a process. May be made and
/// ended on any thread.
class server_process_global_profile {
public:
  /// Throws invalid_argument if there is another one.
  explicit server_process_global_profile(const profile_options& what = {});
  ~server_process_global_profile();
  server_process_global_profile(const server_process_global_profile&) = delete;
  server_process_global_profile& operator=(const server_process_global_profile&) = delete;

  /// Ends it. Returns the events by their start; empty the second time.
  std::vector<profile_event> stop();

private:
  std::shared_ptr<detail::event_collector> events_;
};

}  // namespace troupe
