#pragma once

#include <spdlog/spdlog.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace troupe {

/// The runtime's logger: spdlog's logger "troupe". If the program has registered one of that name,
/// all lines go there; otherwise they go to standard error, from the level on that the environment
/// variable TROUPE_LOG names: debug, info (the default), warning, error or off. Thread-safe. Not
/// for hot paths.
spdlog::logger& log();

/// Sets the rank and name in the prefix of later lines; the node that has joined a job last is
/// named. Thread-safe.
void log_as(std::uint32_t rank, std::string_view name);

/// The format of the runtime's own logger: time, the process's node if it has one, and the level,
/// "[2026-11-24 16:02:11.123] [troupe] [rank 1 worker1] [warning] ", before each line of a text, so
/// that a search over the output of many processes finds every line, and control characters written
/// as "\x1b", so that text from other nodes cannot control a terminal. For sinks of programs, too.
std::unique_ptr<spdlog::formatter> make_log_formatter();

}  // namespace troupe
