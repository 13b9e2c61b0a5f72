#pragma once

#include <cstdint>
#include <memory>

#include "troupe/actors/cluster/worker_info.hpp"

namespace troupe {

class engine;

namespace detail {

class wait_observer;

}  // namespace detail

/// A node as seen by the code that a thread runs for it: what the scheduler, futures and coroutines
/// need of it. It outlives every handler that runs for it. Thread-safe.
class node_context {
public:
  /// The engine that runs it.
  virtual const std::shared_ptr<engine>& driver() const noexcept = 0;

  /// Its name and rank.
  virtual const worker_info& self() const noexcept = 0;

  /// The observer of handlers that wait for long.
  virtual detail::wait_observer& waits() noexcept = 0;

protected:
  node_context() = default;
  node_context(const node_context&) = default;
  node_context& operator=(const node_context&) = default;
  ~node_context() = default;
};

}  // namespace troupe
