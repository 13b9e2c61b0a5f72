#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe {

/// Memory that a payload lies in or shall land in.
struct memory_place {
  enum class kind : std::uint8_t { host, cuda };
  kind where = kind::host;
  std::int8_t device = 0;

  friend bool operator==(const memory_place&, const memory_place&) = default;
};

/// Most payloads of one message.
inline constexpr std::size_t max_payloads = 65'535;

/// Bytes to be sent beside an envelope. `keep` holds them alive until they are on their way;
/// whoever sends leaves them unchanged until then.
struct outgoing_payload {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  memory_place place;
  std::shared_ptr<const void> keep;
};

/// Bytes that have arrived beside an envelope, where they shall stay.
struct incoming_payload {
  std::shared_ptr<std::byte> data;
  std::size_t size = 0;
  memory_place place;
};

}  // namespace troupe
