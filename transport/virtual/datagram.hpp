#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "troupe/messages/envelope/frame.hpp"
#include "troupe/transport/transport.hpp"
#include "troupe/transport/virtual/trace.hpp"

namespace troupe::transport::virtual_net {

inline constexpr virtual_time never = virtual_time::max();

/// Identifies a transport object: a rank may come back as another one, with a larger id.
struct node_key {
  rank_t rank = 0;
  std::uint64_t id = 0;

  friend auto operator<=>(const node_key&, const node_key&) = default;
};

/// The contents of a datagram, shared by all its copies and by the sender until it is acknowledged.
struct parcel {
  std::uint64_t sequence = 0;  ///< of the message, in its connection
  std::uint64_t order = 0;
  std::size_t payloads = 0;  ///< an envelope: how many belong to it
  std::size_t index = 0;     ///< a payload: which one
  bool is_payload = false;
  bool withdrawn = false;  ///< a payload whose memory the sender has taken back
  frame envelope;
  outgoing_payload payload;

  std::size_t size() const noexcept { return is_payload ? payload.size : envelope.size(); }

  /// Releases the memory of a payload: copies in transit arrive as nothing.
  void withdraw() noexcept {
    if (!is_payload) return;
    withdrawn = true;
    payload = {};
  }
};

/// What a receiver has received: all numbers below `next`, and `next` + 1 + i for each bit i of
/// `beyond`.
struct acknowledgement {
  std::uint64_t next = 0;
  std::uint64_t beyond = 0;
  virtual_time echo = never;  ///< `sent` of the first datagram that this one answers
};

struct datagram {
  node_key from;
  node_key to;
  datagram_kind kind{};
  std::uint64_t number = 0;  ///< messages and payloads: in their connection
  acknowledgement ack;
  virtual_time sent;  ///< when its last byte left
  std::shared_ptr<parcel> body;

  /// The bytes that it occupies a link for, headers included.
  std::size_t bytes() const noexcept { return 64 + (body ? body->size() : 0); }
};

}  // namespace troupe::transport::virtual_net
