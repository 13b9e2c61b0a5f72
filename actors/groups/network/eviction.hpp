#pragma once

#include <functional>
#include <vector>

namespace troupe::groups::network {

/// While this exists, a node has been lost and the calling thread tells the groups of it, one after
/// the other. What takes long, such as writing a trace, waits until all have been told: the
/// destructor does it. For one thread.
class eviction {
public:
  eviction();
  ~eviction();
  eviction(const eviction&) = delete;
  eviction& operator=(const eviction&) = delete;

  /// Keeps `work`, which throws nothing, for the end of the eviction on this thread. False, and
  /// nothing is kept: there is none.
  static bool defer(std::function<void()> work);

private:
  std::vector<std::function<void()>> deferred_;
  eviction* const before_;
};

}  // namespace troupe::groups::network
