#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe::transport::tcp {

static_assert(std::endian::native == std::endian::little, "heads are little-endian as they lie");

/// What a record says.
enum class record_kind : std::uint8_t {
  resume = 1,       ///< the first of a connection for messages: what has arrived before
  message,          ///< an envelope
  payload,          ///< a whole payload, on the connection for messages
  chunk,            ///< a part of a payload, on one for bulk
  acknowledgement,  ///< what has arrived
  leave,            ///< the last: the sender closes the connection for good
};

/// The head of a record. Its body follows, then its tag; then what is attached, with a tag of its
/// own, so that a head is known to be genuine before memory is taken for what follows.
struct record_head {
  std::uint32_t size = 0;      ///< of the body; at most `largest_body`
  std::uint32_t attached = 0;  ///< bytes that follow the record
  std::uint64_t sequence = 0;  ///< of the message
  std::uint64_t order = 0;     ///< of a message; of a payload or chunk: bytes of the whole payload
  /// All of the receiver's messages below have arrived; of a chunk: where it begins in the payload.
  std::uint64_t expected = 0;
  std::uint32_t count = 0;  ///< payloads of a message; of a payload or chunk: its index
  record_kind kind = record_kind::message;
  std::uint8_t place = 0;  ///< memory_place::kind of a payload
  std::int8_t device = 0;
  std::uint8_t reserved = 0;
};
static_assert(sizeof(record_head) == 40);

/// Bodies up to this size are read with their head; larger ones are attached.
inline constexpr std::size_t largest_body = 16 * 1024;

/// A node acknowledges what has arrived at least this often.
inline constexpr std::uint64_t most_owed_messages = 64;
inline constexpr std::uint64_t most_owed_bytes = 1024 * 1024;

/// A chunk is of one unit or several, but for the last of a payload, which ends where that ends.
inline constexpr std::size_t chunk_unit = 4 * 1024;
/// With its head and tags just below two of the largest packets that the kernel hands to its
/// segmentation (45 segments of 1,448 bytes, or 7 of 8,948): of anything above, the kernel makes
/// one more small packet, which costs as much as a large one. It also stays in a core's cache
/// between its copy and the kernel's.
inline constexpr std::size_t largest_chunk = 120 * 1024;
/// While small messages come often.
inline constexpr std::size_t small_chunk = 8 * 1024;
/// The same where what is sent before takes long: one such packet.
inline constexpr std::size_t medium_chunk = largest_chunk / 2;
static_assert(largest_chunk % chunk_unit == 0 && small_chunk % chunk_unit == 0 &&
              medium_chunk % chunk_unit == 0);

}  // namespace troupe::transport::tcp
