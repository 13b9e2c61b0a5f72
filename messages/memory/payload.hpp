#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe {

/// The memory that a payload lies in, or that it is received into.
struct memory_place {
  /// The numbers of libtorch's device types, of which two have names here.
  enum class kind : std::uint8_t { host = 0, cuda = 1 };
  kind where = kind::host;
  std::int8_t device = 0;

  friend bool operator==(const memory_place&, const memory_place&) = default;
};

/// Most payloads of one message.
inline constexpr std::size_t max_payloads = 65'535;

/// Bytes to be sent beside an envelope. `keep` keeps them alive until they have been sent; the
/// sender must not change them until then.
struct outgoing_payload {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  memory_place place;
  std::shared_ptr<const void> keep;

  /// Makes the bytes last as they are for as long as the result exists: whoever writes to the
  /// tensor then writes to a copy. Null if that cannot be done. For the one who sends, before
  /// `send` returns, while `keep` is what it was made with. Null for bytes of which nothing is
  /// known.
  std::shared_ptr<const void> (*freeze)(const outgoing_payload&) = nullptr;

  /// Takes the bytes out of the tensor that they are of, with all rights to them, since nobody will
  /// use it any more. Null if that cannot be done; nothing has changed then. For the one who sends,
  /// as `freeze` is. Null for bytes that somebody else may use.
  std::shared_ptr<std::byte> (*take)(const outgoing_payload&) = nullptr;

  /// A copy that was made for this message, not a tensor of the program.
  bool copied = false;

  /// The bytes stay as they are while `keep` lasts: it is what `freeze` or `take` has returned, or
  /// nobody writes to them.
  bool frozen = false;

  /// Makes the bytes stay as they are until they have been sent: they are taken out of their
  /// tensor, or frozen. False: neither can be done.
  bool settle() {
    std::shared_ptr<const void> kept;
    if (take) kept = take(*this);
    if (!kept && freeze) kept = freeze(*this);
    if (!kept) return false;
    keep = std::move(kept);
    frozen = true;
    // What they were is for what was kept before.
    take = nullptr;
    freeze = [](const outgoing_payload& settled) { return settled.keep; };
    return true;
  }

  /// The same for one that is sent after the program has gone on. What was given to the message
  /// nobody else uses, and bytes of no tensor are its own.
  bool settle_for_later() { return !freeze || take || frozen || settle(); }
};

/// Bytes that have arrived beside an envelope, in their final memory.
struct incoming_payload {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
  memory_place place;
  /// The bytes are somebody else's too, or cannot be written at all: whoever writes to the tensor
  /// made of them shall write to a copy.
  bool read_only = false;
};

}  // namespace troupe
