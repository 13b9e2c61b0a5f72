#pragma once

#include <string>

namespace common {

/// Throws troupe::invalid_argument, with `path` and the system's reason, if no file can be opened
/// there for writing. For a check before a run.
void require_writable(const std::string& path);

/// Writes `text` to `path`. Throws troupe::invalid_argument, with `path` and the system's reason.
void write_file(const std::string& path, const std::string& text);

}  // namespace common
