#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "troupe/messages/envelope/frame.hpp"
#include "troupe/messages/memory/payload.hpp"
#include "troupe/transport/lending/node_number.hpp"

namespace troupe::transport::lending {

/// What one end tells the other about loans. It travels behind an envelope, in its frame.
enum class entry_kind : std::uint32_t {
  lend = 1,   ///< a payload that lies in the sender's region
  give_back,  ///< a payload that the receiver has lent; the loan goes on
  end,        ///< a loan of the receiver has ended; `size` counts its `give_back` entries, all of
              ///< which count before it does, though they may arrive later; `index` is `unopened`
              ///< for a lease whose memory the sender could not open, otherwise 0
  can_read,   ///< the sender has mapped the receiver's region
  // The following name a node; see passed_on.hpp.
  known,           ///< the receiver is a reader that its owner, the sender, knows; no node
  can_read_of,     ///< the sender has mapped the region of that node, which knows it
  of_node,         ///< the `pass` entries that follow are of that node's region
  pass,            ///< a payload that lies there, where it was lent to the sender
  whose,           ///< that node has ended: what it has passed on of the sender's region?
  nothing_of,      ///< nothing that it has passed on is read here, or will be
  cannot_read_of,  ///< the sender lets go of that node's region
  passed_in_all,   ///< of that node's region; `size` counts the `pass` entries, after the last one
  // Memory that is handed over: nobody but who has got it last uses it.
  can_write,  ///< the sender can write to the receiver's region
  hand,       ///< a payload that lies in the sender's region, and which the receiver may write
  hand_back,  ///< a payload that was handed to the sender, all of it: the loan has ended
  lease,      ///< a payload without bytes, for memory of a device of the sender; see place_of
};

struct note_entry {
  entry_kind kind;
  std::uint32_t index = 0;   ///< of the payload, among all of the message
  std::uint64_t loan = 0;    ///< numbered by the lender
  std::uint64_t offset = 0;  ///< in the lender's region, or the named node's
  std::uint64_t size = 0;    ///< bytes
};
static_assert(sizeof(note_entry) == 32);

inline constexpr std::uint32_t unopened = 1;

/// An entry that names a node, in place of a loan.
note_entry entry_of(entry_kind kind, const node_number& node) noexcept;
node_number node_of(const note_entry& entry) noexcept;

/// Where the memory of a `lease` lies; in place of an offset.
std::uint64_t word_of(const memory_place& place) noexcept;
/// Throws decode_error: it is no device.
memory_place place_of(const note_entry& lease);

/// The largest note.
inline constexpr std::size_t most_entries = 16 * 1024;

/// Puts a note behind the envelope in `to`. `payloads`: how many the message has, lent ones
/// included. `alone`: there is no message, just the note. Allocates only if the frame has no room.
void append_note(frame& to, std::span<const note_entry> entries, std::uint32_t payloads,
                 bool alone);

struct note {
  std::vector<note_entry> entries;
  std::uint32_t payloads = 0;
  bool alone = false;
};

/// Takes a note off `from` that says no more than that the message has so many payloads, all of
/// which travelled. False, and nothing has changed: it says more, or cannot be read. Hot path.
bool take_empty_note(frame& from, std::size_t payloads) noexcept;

/// Takes the note off `from`, into `to`, whose memory it uses again. Throws decode_error: there is
/// none, it is cut off, its kinds are unknown, or its payloads are not in ascending order.
void take_note(frame& from, note& to);

}  // namespace troupe::transport::lending
