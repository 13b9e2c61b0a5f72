#pragma once

#include <cstdint>

namespace troupe {

/// What becomes of a tensor that requires a gradient and crosses between nodes unrecorded while a
/// distributed autograd context is open on the node: with a message that nobody answers, or from
/// a thread that is in none of the contexts. Threads with grad mode off, and those that have said
/// `autograd::within(0)`, mean it.
enum class lost_gradient : std::uint8_t {
  warn,  ///< one line of the log for each message type and function
  fail,  ///< what would have carried it ends with invalid_argument
};

}  // namespace troupe
