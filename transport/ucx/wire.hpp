#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "troupe/transport/transport.hpp"

namespace troupe::transport::ucx {

static_assert(std::endian::native == std::endian::little, "headers are little-endian as they lie");

/// Version of everything in this file and of the address; nodes of different versions do not
/// connect.
inline constexpr std::uint16_t wire_version = 5;

/// Identifies a transport object, unique among all that ever exist.
using nonce = std::array<std::byte, 16>;

/// Active message ids.
enum am_id : unsigned {
  am_message = 1,
  am_payload = 2,
  am_hello = 3,
  am_leave_notice = 4,
  am_chunk = 5,
  am_acknowledgement = 6,
  am_worker_address = 7,
  am_switched = 8
};

/// Header of a message; the envelope is the data. `token` is known to the two ends alone. All of
/// the receiver's messages below `expected` have arrived, if it keeps them.
struct message_header {
  std::uint64_t token;
  std::uint64_t sequence;
  std::uint64_t order;
  std::uint64_t expected;
  std::uint32_t from;
  std::uint32_t payloads;
};
static_assert(sizeof(message_header) == 40);

/// Header of one payload; the payload is the data.
struct payload_header {
  std::uint64_t token;
  std::uint64_t sequence;
  std::uint64_t size;
  std::uint32_t from;
  std::uint16_t index;
  std::uint8_t place;
  std::int8_t device;
};
static_assert(sizeof(payload_header) == 32);

/// Header of a part of a payload; the bytes from `offset` on are the data.
struct chunk_header {
  payload_header whole;
  std::uint64_t offset;
};
static_assert(sizeof(chunk_header) == 40);

/// Bytes of a chunk: the most that shared memory carries in one piece, with the header.
inline constexpr std::size_t chunk_size = 16384;

/// Longest payload that may come in chunks.
inline constexpr std::size_t longest_chunked = 64 * 1024 * 1024;

/// The first message of a connection, without data: proves to `to` that the sender has the job's
/// key. The proof covers all other fields. A longer header would not be sent at once.
struct hello_header {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t
      wants_acknowledgements;  ///< not 0: the sender keeps its messages until they are acknowledged
  std::uint32_t from;
  std::uint32_t to;
  nonce from_nonce;
  nonce to_nonce;
  std::array<std::byte, 32> proof;
};
static_assert(sizeof(hello_header) == 80);
inline constexpr std::uint32_t hello_magic = 0x75707254;  // "Trpu"

/// Acknowledges what has arrived, without data. Sent from time to time.
///
/// The connections of two nodes are numbered from 0. The node that makes a new one sends a hello
/// and asks what has arrived; the other one adopts that number, if it is greater than its own, and
/// answers when both have the same.
struct acknowledgement_header {
  std::uint64_t token;
  std::uint64_t expected;    ///< as in message_header
  std::uint64_t connection;  ///< its number
  std::uint32_t from;
  std::uint32_t
      asks;  ///< not 0: a question; 0: an acknowledgement, perhaps the answer to a question
};
static_assert(sizeof(acknowledgement_header) == 32);

/// The most by which a connection's number may exceed the last one that was known.
inline constexpr std::uint64_t most_connections = 1u << 20;

/// A part of the signed UCX address of the sender's worker for the receiver alone, without data;
/// follows a hello on one host. The parts come in order. Longer parts would not be sent at once.
struct worker_address_header {
  static constexpr std::size_t part = 64;

  std::uint64_t token;
  std::uint32_t from;
  std::uint16_t offset;
  std::uint16_t size;  ///< of all parts together
  std::array<std::byte, part> bytes;
};
static_assert(sizeof(worker_address_header) == 80);

/// From now on the sender uses the receiver's worker that is for it alone. Without data.
struct switched_header {
  std::uint64_t token;
  std::uint32_t from;
  std::uint32_t reserved;
};
static_assert(sizeof(switched_header) == 16);

/// The last message of a connection, without data.
struct leave_notice_header {
  std::uint64_t token;
  std::uint32_t from;
  std::uint32_t reserved;
};
static_assert(sizeof(leave_notice_header) == 16);

}  // namespace troupe::transport::ucx
