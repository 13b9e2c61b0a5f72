#pragma once

namespace troupe::detail {

class future_core;

/// The sender of a request to an actor of this node, as its receiver sees it.
class local_asker {
public:
  /// Which waits for the answer.
  virtual const future_core* future() const noexcept = 0;

protected:
  ~local_asker() = default;
};

}  // namespace troupe::detail
