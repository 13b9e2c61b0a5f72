#pragma once

#include <cstdint>
#include <string_view>

#include "troupe/messages/base/type_name.hpp"

namespace troupe {

/// Identifies a type or function on the wire: 40 bits of the hash of its name, and 24 of the hash
/// of its structure.
constexpr std::uint64_t identity_of(std::uint64_t name_hash, std::uint64_t structure_hash) {
  constexpr std::uint64_t of_name = ~std::uint64_t{0} << 24;
  return (name_hash & of_name) | (structure_hash & ~of_name);
}

/// The hash of a structure, folded so that all of the text affects the bits that an identity keeps.
constexpr std::uint64_t structure_hash(std::string_view text) {
  const auto hash = hash_name(text);
  return hash ^ hash >> 24 ^ hash >> 48;
}

/// The part of an identity that comes from the name.
constexpr std::uint64_t name_part(std::uint64_t identity) { return identity >> 24; }

}  // namespace troupe
