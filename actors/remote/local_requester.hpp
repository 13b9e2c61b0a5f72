#pragma once

#include "troupe/actors/deadlock/requester.hpp"

namespace troupe::detail {

class future_core;

/// The sender of a request to an actor of its own node. Its future's address is the number of the
/// question.
class local_requester : public deadlock::requester {
public:
  /// The future that waits for the answer.
  virtual const future_core* future() const noexcept = 0;

  question question_at(const incarnation& here) const noexcept final {
    return {here, here, reinterpret_cast<std::uintptr_t>(future()), 0};
  }

protected:
  ~local_requester() = default;
};

}  // namespace troupe::detail
