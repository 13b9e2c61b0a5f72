#pragma once

#include "troupe/actors/messaging/request_table.hpp"

namespace troupe::detail {

/// Takes no answer. A call for this sink carries no request, so the callee sends no answer and
/// nothing is kept of it here: what the function throws is only in the callee's log.
const std::shared_ptr<reply_sink>& no_reply_sink();

}  // namespace troupe::detail
