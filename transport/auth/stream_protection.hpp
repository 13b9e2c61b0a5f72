#pragma once

#include <cstdint>

namespace troupe {

/// What protects the bytes between two hosts, once both ends of a connection have proved that they
/// have the job's secret.
enum class stream_protection : std::uint8_t {
  off,           ///< nothing: for networks on which nobody else can alter packets
  authenticate,  ///< altered, replayed or reordered bytes end the connection (AEGIS)
  encrypt,       ///< nobody else can read them either (AEGIS-128X2)
};

namespace transport {
using troupe::stream_protection;
}

}  // namespace troupe
