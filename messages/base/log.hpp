#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace troupe {

/// Where the runtime writes: spdlog's logger "troupe". A program that has registered one of that
/// name before gets everything there; otherwise it goes to standard error. Thread-safe. Not for hot
/// paths.
spdlog::logger& log();

/// How the runtime's own logger writes: "[troupe] [warning] " before each line of a text, so that
/// whoever searches the output of many processes finds all lines of one, and what other nodes say
/// does not reach the terminal as it is: control characters are "\x1b". For sinks of programs, too.
std::unique_ptr<spdlog::formatter> make_log_formatter();

}  // namespace troupe
