#pragma once

#include <cstdint>
#include <variant>

#include "troupe/actors/groups/network/packet.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

/// Which part of a group's collectives a packet is: each is sent once.
struct part_key {
  std::uint64_t sequence = 0;  ///< of the collective; 0: while the group is made
  std::uint32_t stage = 0;     ///< of the algorithm
  std::int32_t from = 0;       ///< a rank of the group

  friend auto operator<=>(const part_key&, const part_key&) = default;
};

struct part {
  std::uint64_t sequence = 0;
  std::uint32_t stage = 0;
  packet content;
};

/// What a send has sent.
struct letter {
  std::int32_t from = 0;  ///< a rank of the group
  std::int32_t tag = 0;
  std::int8_t dtype = 0;  ///< a c10::ScalarType
  packet content;
  /// Not 0: what the backend of the sender has lent instead of a content, and its bytes.
  std::uint64_t lent = 0;
  std::uint64_t lent_bytes = 0;

  std::size_t size() const noexcept { return lent != 0 ? lent_bytes : content.size(); }
};

/// An operation has failed on the sender: the group is over.
struct failure_notice {
  fault why;
};

/// The sender has left the group of its own accord, and runs no further operation.
struct leave_notice {
  std::uint64_t last = 0;  ///< the last collective that it has asked for
};

/// A message from one rank of a group to another.
struct group_message {
  std::uint64_t group = 0;  ///< group_channel::id
  std::int32_t from = 0;    ///< the sender's rank in it
  std::int32_t to = 0;      ///< the receiver's: a node may have several
  std::variant<part, letter, failure_notice, leave_notice> what;
};

void write_message(encoder& out, const group_message& message);
/// Throws decode_error.
group_message read_message(decoder& in);

}  // namespace troupe::groups::network
