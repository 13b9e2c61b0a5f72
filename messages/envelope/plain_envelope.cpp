#include "troupe/messages/envelope/plain_envelope.hpp"

#include <bit>
#include <cstring>

#include "troupe/messages/schema/envelope.capnp.h"

namespace troupe {

namespace {

static_assert(std::endian::native == std::endian::little, "Cap'n Proto's words are little-endian");

constexpr std::size_t word_bytes = 8;

// A message of one segment whose root is an Envelope, with its body behind it
// (https://capnproto.org/encoding.html). The fields of Envelope are where `capnp compile -ocapnp
// envelope.capnp` says.
struct layout {
  std::uint32_t further_segments;
  std::uint32_t words;  // of the segment
  std::uint64_t root;
  std::uint16_t version;
  std::uint16_t kind;
  // From bit 0: urgent, recorded, usesReplyRoute, unrecorded, profiled, profiledShapes,
  // profiledMemory.
  std::uint16_t flags;
  std::uint16_t body_tag;
  std::uint32_t epoch;
  std::uint32_t limit;
  std::uint64_t job, incarnation, sequence, target, request, sender;
  std::uint64_t body, tensors, fault;  // pointers
};

using schema_size = schema::Envelope::_capnpPrivate;
static_assert(schema_size::dataWordSize == 8 && schema_size::pointerCount == 3);
static_assert(sizeof(layout) == (2 + 8 + 3) * word_bytes);

// A struct, right behind the pointer: its words of data and its pointers.
constexpr std::uint64_t root_pointer = std::uint64_t{8} << 32 | std::uint64_t{3} << 48;
constexpr std::uint16_t inline_body = 0;

// A list of bytes, behind the two pointers that follow: its size.
constexpr std::uint64_t bytes_pointer = 2 << 2 | 1 | std::uint64_t{2} << 32;
constexpr unsigned size_shift = 35;

constexpr std::size_t in_words(std::size_t bytes) { return (bytes + word_bytes - 1) / word_bytes; }

}  // namespace

frame write_plain_envelope(const envelope_header& header, std::span<const std::byte> body) {
  const auto body_words = in_words(body.size());
  layout head{};
  head.words = static_cast<std::uint32_t>(sizeof head / word_bytes - 1 + body_words);
  head.root = root_pointer;
  head.version = protocol_version;
  head.kind = static_cast<std::uint16_t>(header.kind);
  head.flags = static_cast<std::uint16_t>(
      (header.urgent ? 1 : 0) | (header.recorded ? 2 : 0) | (header.uses_reply_route ? 4 : 0) |
      (header.unrecorded ? 8 : 0) | (header.profiled ? 16 : 0) | (header.profiled_shapes ? 32 : 0) |
      (header.profiled_memory ? 64 : 0));
  head.body_tag = inline_body;
  head.epoch = header.epoch;
  head.limit = header.limit;
  head.job = header.job;
  head.incarnation = header.incarnation;
  head.sequence = header.sequence;
  head.target = header.target;
  head.request = header.request;
  head.sender = header.sender;
  head.body = bytes_pointer | std::uint64_t{body.size()} << size_shift;
  frame out(sizeof head + body_words * word_bytes);
  out.resize(sizeof head + body_words * word_bytes);
  std::memcpy(out.data(), &head, sizeof head);
  if (!body.empty()) {
    std::memset(out.data() + out.size() - word_bytes, 0, word_bytes);
    std::memcpy(out.data() + sizeof head, body.data(), body.size());
  }
  return out;
}

std::optional<plain_envelope> read_plain_envelope(std::span<const std::byte> bytes) {
  layout head;
  if (bytes.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto rest = bytes.size() - sizeof head;
  const auto size = head.body >> size_shift;
  const bool plain = head.further_segments == 0 &&
                     (std::uint64_t{head.words} + 1) * word_bytes == bytes.size() &&
                     head.root == root_pointer && head.body_tag == inline_body &&
                     (head.body & ((std::uint64_t{1} << size_shift) - 1)) == bytes_pointer &&
                     in_words(size) * word_bytes == rest && head.tensors == 0 && head.fault == 0;
  if (!plain) return std::nullopt;
  plain_envelope out;
  out.version = head.version;
  out.kind = head.kind;
  out.header.urgent = (head.flags & 1) != 0;
  out.header.recorded = (head.flags & 2) != 0;
  out.header.uses_reply_route = (head.flags & 4) != 0;
  out.header.unrecorded = (head.flags & 8) != 0;
  out.header.profiled = (head.flags & 16) != 0;
  out.header.profiled_shapes = (head.flags & 32) != 0;
  out.header.profiled_memory = (head.flags & 64) != 0;
  out.header.epoch = head.epoch;
  out.header.limit = head.limit;
  out.header.job = head.job;
  out.header.incarnation = head.incarnation;
  out.header.sequence = head.sequence;
  out.header.target = head.target;
  out.header.request = head.request;
  out.header.sender = head.sender;
  out.body = bytes.subspan(sizeof head, size);
  return out;
}

}  // namespace troupe
