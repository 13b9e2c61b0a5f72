#pragma once

#include <cstdint>

namespace troupe::detail {

/// What the rref tables of two nodes say to each other.
enum class rref_message : std::uint8_t {
  claim,    ///< id, use: this node has a reference now
  hold,     ///< id, use: the same, and no answer is wanted
  confirm,  ///< use, whether there is a value, or will be
  unpin,    ///< pin: the receiver is known to the owner
  drop,     ///< the owner's incarnation, and a `drop_queue::message`
  abandon,  ///< number, fault: it will not be created
  dropped,  ///< number of notes of the kind `drop` that have been taken up
};

}  // namespace troupe::detail
