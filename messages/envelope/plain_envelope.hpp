#pragma once

#include <optional>
#include <span>

#include "troupe/messages/envelope/envelope_header.hpp"
#include "troupe/messages/envelope/frame.hpp"

namespace troupe {

/// The most common envelope: a header and a body of at most 4 KiB, no tensors, no error. It lies in
/// one segment and its layout is always the same, so it is written and read here without Cap'n
/// Proto's builder and reader, at a sixth of the cost. The bytes are exactly those that Cap'n Proto
/// would write; anything that looks different is left to Cap'n Proto.

/// Pre: `body` has at most 4 KiB.
frame write_plain_envelope(const envelope_header& header, std::span<const std::byte> body);

struct plain_envelope {
  std::uint16_t version;
  std::uint16_t kind;
  envelope_header header;  ///< all but `kind`, which is not checked yet
  std::span<const std::byte> body;
};

/// Nothing when it is not plain, or not well formed.
std::optional<plain_envelope> read_plain_envelope(std::span<const std::byte> bytes);

}  // namespace troupe
