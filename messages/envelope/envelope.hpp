#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/envelope/envelope_header.hpp"
#include "troupe/messages/envelope/frame.hpp"
#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/memory/pending_bytes.hpp"

namespace troupe {

class tensor_writer;
class tensor_reader;

/// A message ready for a transport.
struct sealed_envelope {
  frame bytes;
  std::vector<outgoing_payload> payloads;
};

/// Builds an envelope around `body`. `tensors`, if there are any, has written the body's tensors;
/// `why` belongs to a failure. `pending`: gets what devices have yet to write of the payloads, or
/// null; without it that is waited for. A body of more than 4 KiB becomes the last payload. Throws
/// encode_error when the envelope, without its payloads, takes more than 64 MiB. Hot path:
/// allocates nothing for a small body without tensors.
sealed_envelope seal(const envelope_header& header, std::span<const std::byte> body,
                     tensor_writer* tensors = nullptr, const fault* why = nullptr,
                     std::unique_ptr<pending_bytes>* pending = nullptr);

/// An envelope that has arrived. The constructor checks it and throws decode_error; the contents of
/// the tensors and the error are checked when they are asked for. Views into it are valid as long
/// as it exists. One thread.
class opened_envelope {
public:
  opened_envelope(frame bytes, std::vector<incoming_payload> payloads);
  ~opened_envelope();

  opened_envelope(const opened_envelope&) = delete;
  opened_envelope& operator=(const opened_envelope&) = delete;

  const envelope_header& header() const noexcept { return header_; }
  std::span<const std::byte> body() const noexcept { return body_; }

  /// The body's tensors; nullptr when there are none. `usable`, at the first call: see
  /// tensor_reader. Throws decode_error.
  tensor_reader* tensors(const std::vector<memory_place>& usable = {});

  /// Returns the message as it came, for another reader to open. Nothing else may be called
  /// afterwards, and `tensors` must not have been called before: its tensors lie in the same
  /// payloads.
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
