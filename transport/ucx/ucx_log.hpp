#pragma once

#include <string>

namespace troupe::transport::ucx {

/// From now on UCX's lines go to `troupe::log()`, its errors and warnings as debug lines: each of
/// them becomes a status that Troupe reports with what it knows, and many belong to the ordinary
/// end of a peer. With UCX_LOG_LEVEL or UCX_LOG_FILE set, UCX writes its own lines instead.
void take_over_ucx_log();

struct ucx_error_lines {
  std::string first, last;
};

/// What UCX has written on this thread since the last call; empty when there were no errors, or
/// when UCX writes its own lines.
ucx_error_lines ucx_errors();

}  // namespace troupe::transport::ucx
