#pragma once

#include <map>
#include <mutex>

#include "troupe/actors/future/future.hpp"

namespace troupe {

/// Futures of a node that become ready at a time. Thread-safe.
class sleepers {
public:
  /// A future that is ready at `until`, or fails when the node ends. `driver` is the node's.
  future<void> add(const std::shared_ptr<engine>& driver, clock::time_point until);

  /// Drops one that was to be ready at `until`, and that is not waited for any more.
  void remove(const future<void>& one, clock::time_point until);

  /// Completes those that are due; returns when the next is, or `never`.
  clock::time_point run_due(clock::time_point now);

  /// The node has ended: all fail with `why`, and so do those that are added later.
  void end(const fault& why);

private:
  using state = std::shared_ptr<detail::future_state<void>>;

  std::mutex mutex_;
  std::multimap<clock::time_point, state> waiting_;
  std::optional<fault> ended_;
};

}  // namespace troupe
