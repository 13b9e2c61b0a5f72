#pragma once

#include <cstddef>
#include <string>

#include "troupe/actors/membership/membership_messages.hpp"
#include "troupe/messages/codec/archive.hpp"

namespace troupe {

/// At most so many bytes of a cause (longer ones are cut), of a member's name and of its address.
inline constexpr std::size_t max_cause = 1024;
inline constexpr transport::rank_t most_ranks = 1u << 20;  ///< the places of a peer_table
inline constexpr std::size_t max_member_name = 255;
inline constexpr std::size_t max_member_address = 64 * 1024;

/// `text`, or its beginning if it is too long for a message; never half a character.
std::string cut_cause(std::string text);

/// Throws encode_error.
void write_message(encoder& out, const membership_message& message);

/// Throws decode_error for what no node writes. Does not check that a message makes sense:
/// membership ignores those that do not.
membership_message read_message(decoder& in);

/// A view, for a joiner. Throws as above.
void write_view(encoder& out, const membership_view& view);
membership_view read_view(decoder& in);

}  // namespace troupe
