#pragma once

#include <cstdint>

namespace troupe {

/// The version of the wire protocol. Nodes of different versions do not talk.
inline constexpr std::uint16_t protocol_version = 4;

enum class envelope_kind : std::uint8_t { actor_message, response, failure, call, control };

/// The fixed part of an envelope; messages/schema/envelope.capnp says what each field means.
struct envelope_header {
  envelope_kind kind = envelope_kind::control;
  bool urgent = false;
  bool recorded = false;
  bool uses_reply_route =
      false;  ///< its tensors are routed by the receiver's device map, in reverse
  bool unrecorded = false;
  bool profiled = false;  ///< of a call: the caller profiles it
  bool profiled_shapes = false;
  bool profiled_memory = false;
  std::uint32_t limit = 0;  ///< how long its caller waits, in ms; 0: unknown
  std::uint32_t epoch = 0;
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t sequence = 0;
  std::uint64_t target = 0;
  std::uint64_t request = 0;
  std::uint64_t sender = 0;
};

}  // namespace troupe
