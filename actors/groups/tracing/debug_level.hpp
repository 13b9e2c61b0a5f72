#pragma once

#include <cstdint>

namespace troupe {

/// How much process groups of this process say and check. What ranks ask for is compared at every
/// level: operation, sequence number, dtype, elements, reduction, root.
enum class debug_level : std::uint8_t {
  off,
  /// The log tells of each group that is made, and of each that fails.
  info,
  /// Before a collective the ranks compare all that they ask for, with the shapes, by messages: an
  /// error says what each rank has asked for, and where (a call stack). Traces and errors have
  /// shapes and call stacks. Costs tens of microseconds for each operation.
  detail,
};

/// "off".
const char* to_string(debug_level level) noexcept;

/// From now on. Whether a group checks at `detail` is decided when its members first meet, and
/// holds for all of them if it is so for one. Thread-safe.
void set_debug_level(debug_level level) noexcept;

/// What was set last; before, what the environment says, and `off`, with a warning, if it says
/// nonsense. Thread-safe.
debug_level get_debug_level() noexcept;

/// By the variable TROUPE_DEBUG: off, info or detail, in any case; `off` if it is not set. Throws
/// invalid_argument for other words.
debug_level debug_level_from_env();
void set_debug_level_from_env();

}  // namespace troupe
