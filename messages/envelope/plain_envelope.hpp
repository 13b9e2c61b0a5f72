#pragma once

#include <optional>
#include <span>

#include "troupe/messages/envelope/envelope.hpp"

namespace troupe {

/// The commonest envelope: a header and a body of at most 4 KiB, no tensors, no error. As it lies
/// in one segment its layout is always the same, so that it is written and read here without a
/// builder and a reader of Cap'n Proto's, at a sixth of the cost. What is written is byte for byte
/// what Cap'n Proto would write; what looks different in any way is left to Cap'n Proto.

/// Pre: `body` has at most 4 KiB.
frame write_plain_envelope(const envelope_header& header, std::span<const std::byte> body);

struct plain_envelope {
  std::uint16_t version;
  std::uint16_t kind;
  envelope_header header;  ///< but for `kind`, which nobody has checked
  std::span<const std::byte> body;
};

/// Nothing when it is not plain, or not well formed.
std::optional<plain_envelope> read_plain_envelope(std::span<const std::byte> bytes);

}  // namespace troupe
