#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/envelope/frame.hpp"
#include "troupe/messages/memory/payload.hpp"

namespace troupe {

class tensor_writer;
class tensor_reader;

/// The version of the wire protocol. Nodes of different versions do not talk.
inline constexpr std::uint16_t protocol_version = 2;

enum class envelope_kind : std::uint8_t { actor_message, response, failure, call, control };

/// The fixed part of an envelope; messages/schema/envelope.capnp says what each field means.
struct envelope_header {
  envelope_kind kind = envelope_kind::control;
  bool urgent = false;
  bool recorded = false;
  bool uses_reply_route = false;  ///< its tensors go by the receiver's device map, the other way
  bool unrecorded = false;
  bool profiled = false;  ///< of a call: its caller's profile wants to know of it
  bool profiled_shapes = false;
  bool profiled_memory = false;
  std::uint32_t limit = 0;  ///< how long its caller waits, in ms; 0: not known
  std::uint32_t epoch = 0;
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t sequence = 0;
  std::uint64_t target = 0;
  std::uint64_t request = 0;
  std::uint64_t sender = 0;
};

/// A message ready for a transport.
struct sealed_envelope {
  frame bytes;
  std::vector<outgoing_payload> payloads;
};

/// Builds an envelope around `body`. `tensors`, when there are any, has met the body's tensors;
/// `why` belongs to a failure. A body of more than 4 KiB becomes the last payload. Throws
/// encode_error when the envelope, without its payloads, takes more than 64 MiB. Hot path:
/// allocates nothing for a small body without tensors.
sealed_envelope seal(const envelope_header& header, std::span<const std::byte> body,
                     tensor_writer* tensors = nullptr, const fault* why = nullptr);

/// An envelope that has arrived. Construction checks it and throws decode_error; what the tensors
/// and the error are made of is checked when they are asked for. Views into it live as long as it
/// does. One thread.
class opened_envelope {
public:
  opened_envelope(frame bytes, std::vector<incoming_payload> payloads);
  ~opened_envelope();

  opened_envelope(const opened_envelope&) = delete;
  opened_envelope& operator=(const opened_envelope&) = delete;

  const envelope_header& header() const noexcept { return header_; }
  std::span<const std::byte> body() const noexcept { return body_; }

  /// The body's tensors; nullptr when there are none. Throws decode_error.
  tensor_reader* tensors();

  /// Takes the message back as it came, for somebody else to open. Nothing else may be called then,
  /// and `tensors` not before: its tensors lie in the same payloads.
  std::pair<frame, std::vector<incoming_payload>> give_back() noexcept {
    return {std::move(bytes_), std::move(payloads_)};
  }

  /// A failure's error; of code errc::internal if it names none. Throws decode_error, also for
  /// other kinds.
  fault why() const;

private:
  struct reader;

  void read();
  void check_payloads(std::size_t expected) const;

  frame bytes_;
  std::vector<incoming_payload> payloads_;
  std::unique_ptr<tensor_reader> tensors_;
  envelope_header header_;
  std::span<const std::byte> body_;
  bool has_tensors_ = false;
  alignas(16) std::byte storage_[512];
  reader* reader_ = nullptr;  // unless it is plain
};

}  // namespace troupe
