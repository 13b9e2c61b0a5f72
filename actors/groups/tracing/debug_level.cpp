#include "troupe/actors/groups/tracing/debug_level.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "troupe/actors/groups/backend/text.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"

namespace troupe {

namespace {

debug_level level_to_begin_with() noexcept {
  try {
    return debug_level_from_env();
  } catch (const std::exception& e) {
    log().warn("{}; it counts as off", e.what());
    return debug_level::off;
  }
}

std::atomic<debug_level>& level_of_process() noexcept {
  static std::atomic<debug_level> level{level_to_begin_with()};
  return level;
}

}  // namespace

const char* to_string(debug_level level) noexcept {
  switch (level) {
    case debug_level::off: return "off";
    case debug_level::info: return "info";
    case debug_level::detail: return "detail";
  }
  return "unknown";
}

void set_debug_level(debug_level level) noexcept {
  level_of_process().store(level, std::memory_order_relaxed);
}

debug_level get_debug_level() noexcept {
  return level_of_process().load(std::memory_order_relaxed);
}

debug_level debug_level_from_env() {
  const char* const set = std::getenv("TROUPE_DEBUG");
  if (!set || !*set) return debug_level::off;
  const auto word = groups::lower_case(set);
  for (const auto level : {debug_level::off, debug_level::info, debug_level::detail})
    if (word == to_string(level)) return level;
  throw invalid_argument(
      fmt::format("The value of TROUPE_DEBUG must be one of off, info, or detail. Found: {}", set));
}

void set_debug_level_from_env() { set_debug_level(debug_level_from_env()); }

}  // namespace troupe
