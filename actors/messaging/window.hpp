#pragma once

#include <cstdint>

namespace troupe {

/// How much a node may have under way to another one before that has taken it up. 0: no limit.
struct flow_window {
  std::uint32_t messages = 8192;
  std::uint64_t bytes = std::uint64_t{64} << 20;
};

/// What a sender does when the receiver's window is full.
enum class when_full : std::uint8_t {
  wait,  ///< until there is room, or the call's limit has passed
  fail,  ///< the call ends with overloaded_error
};

}  // namespace troupe
