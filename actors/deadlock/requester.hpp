#pragma once

#include "troupe/actors/future/question.hpp"

namespace troupe::deadlock {

using detail::question;

/// The sender of a request, as it stands in the mailbox of the actor that is asked: it knows which
/// question the request is. Senders of other kinds ask questions that no handler can wait for.
class requester {
public:
  /// The question, asked at this node, `here`. The actor is left open: any may answer, since a
  /// request can be delegated.
  virtual question question_at(const incarnation& here) const noexcept = 0;

protected:
  requester() = default;
  requester(const requester&) = default;
  requester& operator=(const requester&) = default;
  ~requester() = default;
};

}  // namespace troupe::deadlock
