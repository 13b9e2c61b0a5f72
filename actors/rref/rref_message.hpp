#pragma once

#include <cstdint>

namespace troupe::detail {

/// The messages between the rref tables of two nodes, with their contents: the first word of a
/// message on the rref_channel.
enum class rref_message : std::uint8_t {
  claim,    ///< id, use: the sender has a reference now; answered by `confirm`
  hold,     ///< id, use: the same, without an answer
  confirm,  ///< use, whether there is a value, or will be
  unpin,    ///< pin: the owner knows the receiver of a reference
  drop,     ///< the owner's incarnation, and a `drop_queue::message`
  abandon,  ///< number, fault: the value will not be created
  dropped,  ///< the number of `drop` messages that have been processed since the last of these
};

}  // namespace troupe::detail
