#pragma once

#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe {

class opened_envelope;
struct profile_event;

/// Gets the answer to a call, on a thread that may lead the network: it only takes the answer and
/// wakes others. Called exactly once, but for a call that has timed out or was given up: then again
/// when the late answer comes, which it reads, since handles may be in it, and drops.
class reply_sink {
public:
  virtual ~reply_sink() = default;
  virtual void on_value(opened_envelope& answer) noexcept = 0;
  virtual void on_fault(fault&& why) noexcept = 0;
  /// Its limit has passed: the answer may come still.
  virtual void on_expiry(fault&& why) noexcept { on_fault(std::move(why)); }
  /// Does the result stay with the callee, for an rref to refer to?
  virtual bool keeps_result() const noexcept { return false; }
  /// What the callee has recorded of the call, if the caller's profile wants it: before the answer.
  virtual void on_profile(std::vector<profile_event>&&) noexcept {}
};

}  // namespace troupe
