#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "troupe/actors/profiling/profile_event.hpp"

namespace troupe {

namespace detail {

class event_collector;

/// Is there a server_process_global_profile? Hot path.
inline constinit std::atomic<bool> process_is_profiled{false};

/// Its collector; null: there is none.
std::shared_ptr<event_collector> process_collector();

}  // namespace detail

/// While it lives, all that this process is asked for by calls and messages to actors is recorded,
/// on all threads of all its nodes, whoever asks: for each a range, "rpc#f(a -> b)" or
/// "actor#message(a -> b)", and what libtorch runs in it on its thread; of a coroutine up to where
/// it first waits. What is answered before `stop` is in it, what is still under way then is not.
/// One at a time in a process. May be made and ended on any thread.
class server_process_global_profile {
public:
  /// Throws invalid_argument while there is another one.
  explicit server_process_global_profile(const profile_options& what = {});
  ~server_process_global_profile();
  server_process_global_profile(const server_process_global_profile&) = delete;
  server_process_global_profile& operator=(const server_process_global_profile&) = delete;

  /// Ends it. The events by their start; empty the second time.
  std::vector<profile_event> stop();

private:
  std::shared_ptr<detail::event_collector> events_;
};

}  // namespace troupe
