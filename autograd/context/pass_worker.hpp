#pragma once

#include <caf/actor_control_block.hpp>
#include <cstddef>
#include <exception>
#include <memory>

// What a context has to do with backward passes. autograd/pass implements it.

namespace troupe {

class peer;

}  // namespace troupe

namespace troupe::autograd::detail {

class participant;
class pass_worker_state;

/// The actor that runs one context's backward passes on this node, and its state, which lives as
/// long as the actor. An opaque handle: what the actor understands is known to autograd/pass.
struct pass_worker {
  caf::strong_actor_ptr actor;
  std::weak_ptr<pass_worker_state> state;
};

/// Where the contexts of a node get their workers. Thread-safe.
class pass_workers {
public:
  virtual ~pass_workers() = default;

  /// A worker that serves `part` and no other context.
  virtual pass_worker take(std::shared_ptr<participant> part) = 0;

  /// The context of that worker has ended. Drops what the worker holds of it, on the calling thread
  /// if possible.
  virtual void take_back(pass_worker&& one) noexcept = 0;

  /// The number of workers without a context that nobody can send a message to any more: those that
  /// the next contexts get.
  virtual std::size_t count_free() = 0;

  /// The node ends, and with it the workers without a context. Others end when they are taken back.
  virtual void close() = 0;
};

/// A backward pass that this node has started, as its context sees it. Thread-safe.
class started_pass {
public:
  /// A node is lost. The pass fails if that node takes part in it.
  virtual void evict(const peer& lost) = 0;

  /// Ends the pass with that error, if it has not ended.
  virtual void fail(std::exception_ptr why) = 0;

protected:
  ~started_pass() = default;
};

}  // namespace troupe::autograd::detail
