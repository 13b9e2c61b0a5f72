#include "troupe/transport/lending/lending_note.hpp"

#include <cstring>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::lending {

namespace {

constexpr std::uint32_t note_magic = 0x4e4c7254;  // "TrLN"
constexpr std::uint32_t alone_bit = 1;

// The end of the frame. Before it the entries, before them the envelope, filled up to 8 bytes.
struct note_foot {
  std::uint32_t magic;
  std::uint32_t payloads;
  std::uint32_t envelope;  // bytes
  std::uint16_t entries;
  std::uint16_t flags;
};
static_assert(sizeof(note_foot) == 16);

constexpr std::size_t to_words(std::size_t size) noexcept { return (size + 7) / 8 * 8; }

bool is_payload(entry_kind kind) noexcept {
  switch (kind) {
    case entry_kind::lend:
    case entry_kind::give_back:
    case entry_kind::pass:
    case entry_kind::hand:
    case entry_kind::hand_back:
    case entry_kind::lease: return true;
    default: return false;
  }
}

// False: there is no note.
bool read_foot(const frame& from, note_foot& to) noexcept {
  if (from.size() < sizeof to) return false;
  std::memcpy(&to, from.data() + from.size() - sizeof to, sizeof to);
  return to.magic == note_magic;
}

[[noreturn]] void bad_note(const char* problem) {
  throw decode_error(std::string("A note about lent memory cannot be read: ") + problem + ".");
}

}  // namespace

note_entry entry_of(entry_kind kind, const node_number& node) noexcept {
  note_entry out{.kind = kind};
  static_assert(sizeof out.loan + sizeof out.offset == sizeof node);
  std::memcpy(&out.loan, node.data(), sizeof out.loan);
  std::memcpy(&out.offset, node.data() + sizeof out.loan, sizeof out.offset);
  return out;
}

node_number node_of(const note_entry& entry) noexcept {
  node_number out;
  std::memcpy(out.data(), &entry.loan, sizeof entry.loan);
  std::memcpy(out.data() + sizeof entry.loan, &entry.offset, sizeof entry.offset);
  return out;
}

std::uint64_t word_of(const memory_place& place) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(place.where)} << 8 |
         static_cast<std::uint8_t>(place.device);
}

memory_place place_of(const note_entry& lease) {
  const memory_place out{static_cast<memory_place::kind>(lease.offset >> 8 & 0xff),
                         static_cast<std::int8_t>(lease.offset & 0xff)};
  constexpr auto most = std::uint64_t{1} << 48;  // addresses have no more bits: sums stay sums
  if (out.where == memory_place::kind::host || word_of(out) != lease.offset || lease.size == 0 ||
      lease.size >= most)
    bad_note("it leases memory that is no device's");
  return out;
}

void append_note(frame& to, std::span<const note_entry> entries, std::uint32_t payloads,
                 bool alone) {
  const auto envelope = to.size();
  const auto start = to_words(envelope);
  const auto size = start + entries.size_bytes() + sizeof(note_foot);
  if (size > to.capacity()) {
    frame larger(size);
    if (envelope > 0) std::memcpy(larger.data(), to.data(), envelope);
    to = std::move(larger);
  }
  const note_foot foot{note_magic, payloads, static_cast<std::uint32_t>(envelope),
                       static_cast<std::uint16_t>(entries.size()),
                       static_cast<std::uint16_t>(alone ? alone_bit : 0)};
  std::memset(to.data() + envelope, 0, start - envelope);
  if (!entries.empty()) std::memcpy(to.data() + start, entries.data(), entries.size_bytes());
  std::memcpy(to.data() + size - sizeof foot, &foot, sizeof foot);
  to.resize(size);
}

bool take_empty_note(frame& from, std::size_t payloads) noexcept {
  note_foot foot;
  if (!read_foot(from, foot) || foot.entries != 0 || foot.flags != 0 || foot.payloads != payloads ||
      to_words(foot.envelope) + sizeof foot != from.size())
    return false;
  from.resize(foot.envelope);
  return true;
}

void take_note(frame& from, note& to) {
  note_foot foot;
  if (!read_foot(from, foot)) bad_note("it is missing");
  if (foot.entries > most_entries) bad_note("it has too many entries");
  if (foot.flags > alone_bit) bad_note("its flags are unknown");
  if (foot.payloads > max_payloads) bad_note("its message has too many payloads");
  const auto start = to_words(foot.envelope);
  if (from.size() != start + foot.entries * sizeof(note_entry) + sizeof foot)
    bad_note("its lengths do not fit its message");
  to.entries.resize(foot.entries);
  if (foot.entries > 0)
    std::memcpy(to.entries.data(), from.data() + start, foot.entries * sizeof(note_entry));
  to.payloads = foot.payloads;
  to.alone = (foot.flags & alone_bit) != 0;
  std::uint64_t next = 0;
  for (const auto& entry : to.entries) {
    if (entry.kind < entry_kind::lend || entry.kind > entry_kind::lease)
      bad_note("it has an entry of an unknown kind");
    if (!is_payload(entry.kind)) continue;
    if (entry.index < next || entry.index >= foot.payloads)
      bad_note("its payloads are out of order or do not exist");
    next = std::uint64_t{entry.index} + 1;
  }
  if (to.alone && (foot.envelope != 0 || foot.payloads != 0))
    bad_note("it says that there is no message, and there is one");
  from.resize(foot.envelope);
}

}  // namespace troupe::transport::lending
