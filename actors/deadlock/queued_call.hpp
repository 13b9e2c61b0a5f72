#pragma once

#include <caf/ref_counted.hpp>
#include <caf/resumable.hpp>
#include <optional>

#include "messages/error.hpp"
#include "transport/transport.hpp"

namespace troupe::deadlock {

/// A call in a node's run queue.
class queued_call : public caf::resumable, public caf::ref_counted {
public:
  queued_call(transport::rank_t from, std::uint64_t request) : from_(from), request_(request) {}

  transport::rank_t from() const noexcept { return from_; }

  /// The caller's number for it; 0: it wants no answer.
  std::uint64_t request() const noexcept { return request_; }

  /// It is not to be run: its answer is this failure. Before it is resumed.
  void refuse(fault why) { refusal_ = std::move(why); }

  subtype_t subtype() const final { return function_object; }
  void intrusive_ptr_add_ref_impl() final { ref(); }
  void intrusive_ptr_release_impl() final { deref(); }

protected:
  const fault* refusal() const noexcept { return refusal_ ? &*refusal_ : nullptr; }

private:
  const transport::rank_t from_;
  const std::uint64_t request_;
  std::optional<fault> refusal_;
};

}  // namespace troupe::deadlock
