#pragma once

#include <string>

#include "troupe/optim/state/optimizer_state.hpp"

// The file of a saved state: 16 bytes that identify it, 32 bytes of a BLAKE2b hash of all that
// follows, the sizes of an envelope and of its payloads, and these, as they travel in a message.
namespace troupe::detail {

/// Replaces the file atomically, once all of the new one is written. Throws invalid_argument if it
/// cannot be written.
void write_state(const std::string& file, const optimizer_state& state);

/// Trusts nothing in the file: allocations are bounded by its size, and nothing is decoded before
/// the hash has been checked. Throws invalid_argument for a file that `write_state` has not
/// written, or that is truncated or damaged.
optimizer_state read_state(const std::string& file);

}  // namespace troupe::detail
