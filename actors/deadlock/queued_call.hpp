#pragma once

#include <caf/ref_counted.hpp>
#include <caf/resumable.hpp>
#include <optional>

#include "troupe/actors/deadlock/wait_messages.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::deadlock {

/// A call in a node's run queue.
class queued_call : public caf::resumable, public caf::ref_counted {
public:
  /// `request`: the caller's number for it; 0: it wants no answer.
  queued_call(const peer& from, std::uint64_t request) : from_(from), request_(request) {}

  /// The question that its caller asks the node `here`, in whose queue it is.
  question asked_at(const incarnation& here) const noexcept {
    return {incarnation_of(from_), here, request_, 0};
  }

  /// The call is not to be run: its answer is this failure. Pre: it has not been resumed.
  void refuse(fault why) { refusal_ = std::move(why); }

  subtype_t subtype() const final { return function_object; }
  void intrusive_ptr_add_ref_impl() final { ref(); }
  void intrusive_ptr_release_impl() final { deref(); }

protected:
  const fault* refusal() const noexcept { return refusal_ ? &*refusal_ : nullptr; }

private:
  const peer& from_;
  const std::uint64_t request_;
  std::optional<fault> refusal_;
};

}  // namespace troupe::deadlock
