#pragma once

#include <cstdint>

namespace troupe {

/// Messages between nodes' agents about calls, on the calls_channel. First in the body.
enum class call_control : std::uint8_t {
  cancel,   // request: the caller has given that call up
  profile,  // request, events: what the callee has recorded of that call
};

}  // namespace troupe
