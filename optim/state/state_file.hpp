#pragma once

#include "troupe/optim/shard/shard_messages.hpp"

namespace troupe::detail {

/// What a distributed optimizer knows, wherever its parameters are: states by the parameter's index
/// in its list.
struct optimizer_state {
  std::string optimizer;                ///< its class
  std::vector<std::uint32_t> group_of;  ///< of each parameter
  shard_state all;
};
TROUPE_MESSAGE(optimizer_state, optimizer, group_of, all)

/// In a file: 16 bytes that say what it is, 32 of a BLAKE2b hash of what follows, the sizes of an
/// envelope and its payloads, and these, as they would travel.
///
/// Replaces the file at once, when all of it is there. Throws invalid_argument when it cannot.
void write_state(const std::string& file, const optimizer_state& state);

/// Nothing in the file is trusted: what is allocated is bounded by its size, and nothing is taken
/// apart before the hash has been checked. Throws invalid_argument for what is no such file, is cut
/// or spoilt.
optimizer_state read_state(const std::string& file);

}  // namespace troupe::detail
