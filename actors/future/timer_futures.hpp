#pragma once

#include <map>
#include <mutex>

#include "troupe/actors/future/future.hpp"

namespace troupe {

/// Futures of a node that become ready as time passes. Thread-safe.
class sleepers {
public:
  /// Ready at `until`, or fails when the node ends; `driver` is the node's.
  future<void> add(const std::shared_ptr<engine>& driver, clock::time_point until);

  /// Forgets one that was to be ready at `until`: nobody waits for it any more.
  void remove(const future<void>& one, clock::time_point until);

  /// Completes those that are due; returns when the next is, or `never`.
  clock::time_point run_due(clock::time_point now);

  /// The node has ended: all fail, those that come later too.
  void end(const fault& why);

private:
  using state = std::shared_ptr<detail::future_state<void>>;

  std::mutex mutex_;
  std::multimap<clock::time_point, state> waiting_;
  std::optional<fault> ended_;
};

}  // namespace troupe
