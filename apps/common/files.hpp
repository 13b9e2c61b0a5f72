#pragma once

#include <string>

namespace common {

/// Throws troupe::invalid_argument, naming `path` and the system's reason, when no file can be
/// opened there; to be asked before a run.
void require_writable(const std::string& path);

/// Writes `text` to `path`; throws troupe::invalid_argument, naming `path` and the system's reason,
/// when that fails.
void write_file(const std::string& path, const std::string& text);

}  // namespace common
