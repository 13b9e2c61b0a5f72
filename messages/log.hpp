#pragma once

#include <spdlog/spdlog.h>

namespace troupe {

/// Where the runtime writes: spdlog's logger "troupe". A program that has registered one of that
/// name before gets everything there; otherwise it goes to standard error. Thread-safe. Not for hot
/// paths.
spdlog::logger& log();

}  // namespace troupe
