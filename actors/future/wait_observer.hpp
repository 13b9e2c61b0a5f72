#pragma once

#include <memory>

#include "troupe/actors/future/question.hpp"
#include "troupe/messages/base/function_ref.hpp"

namespace troupe::detail {

class future_core;

/// Is notified of handlers of a node that wait for long, without a limit of their own: they may
/// wait for one another. Thread-safe.
class wait_observer {
public:
  /// The node.
  virtual const incarnation& self() const noexcept = 0;

  /// Runs `wait`, in which the handler of the calling thread waits for `what`, the answer to
  /// `asked`, and returns its result. If `what` asks on, `asked` may be empty for now. May make
  /// `what` fail meanwhile, on another thread. Throws what `wait` throws.
  virtual bool observe(const std::shared_ptr<future_core>& what, const question& asked,
                       function_ref<bool()> wait) = 0;

protected:
  wait_observer() = default;
  wait_observer(const wait_observer&) = default;
  wait_observer& operator=(const wait_observer&) = default;
  ~wait_observer() = default;
};

}  // namespace troupe::detail
