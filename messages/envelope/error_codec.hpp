#pragma once

#include <cstddef>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/schema/error.capnp.h"

namespace troupe {

/// Each text of a fault is cut to this many bytes when it is written.
inline constexpr std::size_t max_fault_text = 64 * 1024;

/// Writes `f`; texts that are too long end in "…", cut between two characters of UTF-8.
void write_fault(const fault& f, schema::Fault::Builder out);

/// An upper bound of the 8-byte words that `write_fault` takes in its message.
std::size_t fault_words(const fault& f) noexcept;

/// Reads a fault. A code of a newer version becomes errc::internal, its number in the text. Throws
/// decode_error.
fault read_fault(schema::Fault::Reader in);

}  // namespace troupe
