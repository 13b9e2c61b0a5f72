#pragma once

#include <cstdint>

namespace troupe {

/// What becomes of a tensor that requires a gradient and crosses between nodes unrecorded while a
/// distributed autograd context is open on the node: with a message that nobody answers, or from a
/// thread that is in none of the contexts. On threads with grad mode off, and on those in
/// `autograd::within(0)`, the loss is intended, and nothing is reported.
enum class lost_gradient : std::uint8_t {
  warn,  ///< one line of the log for each message type and function
  fail,  ///< what would have carried it ends with invalid_argument
};

}  // namespace troupe
