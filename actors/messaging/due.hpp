#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/actors/sync/futex.hpp"
#include "troupe/messages/envelope/envelope.hpp"

namespace troupe {

/// When the caller of a call that arrives now gives it up, as far as this node can know: its limit
/// is counted from here.
inline clock::time_point due_at(const envelope_header& header) noexcept {
  return header.limit == 0 ? never : clock::recently() + std::chrono::milliseconds(header.limit);
}

/// The limit as a header has it: 0 for none, and for a very long one.
inline std::uint32_t limit_in(std::chrono::milliseconds limit) noexcept {
  return limit.count() > 0 && limit.count() <= UINT32_MAX
             ? static_cast<std::uint32_t>(limit.count())
             : 0;
}

}  // namespace troupe
