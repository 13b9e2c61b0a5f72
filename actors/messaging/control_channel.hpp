#pragma once

#include <cstdint>

namespace troupe {

/// Which part of a node a control message is for: its envelope's target.
enum control_channel : std::uint64_t {
  handles_channel = 0,  ///< handles, watching, windows
  shutdown_channel = 1,
  membership_channel = 2,
  rref_channel = 3,
};

}  // namespace troupe
