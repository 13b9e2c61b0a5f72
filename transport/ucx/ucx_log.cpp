#include "troupe/transport/ucx/ucx_log.hpp"

#include <ucs/debug/log_def.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "troupe/messages/base/log.hpp"

namespace troupe::transport::ucx {

namespace {

using text = std::array<char, 512>;

// Without a destructor: UCX may write while the thread ends.
thread_local text first_error{};
thread_local text last_error{};

// Runs inside UCX, at any place and under its locks.
ucs_log_func_rc_t take_line(const char* file, unsigned, const char*, ucs_log_level_t level,
                            const ucs_log_component_config_t*, const char* format, va_list values) {
  if (level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;  // it ends the process
  text line;
  std::vsnprintf(line.data(), line.size(), format, values);
  if (level == UCS_LOG_LEVEL_ERROR) {
    if (first_error[0] == 0) first_error = line;
    last_error = line;
  }
  try {
    // Errors in the environment are for the user who has set it.
    const bool settings = std::string_view(file).ends_with("config/parser.c");
    log().log(settings ? spdlog::level::warn : spdlog::level::debug, "UCX: {}", line.data());
  } catch (...) {  // without memory there is nothing to say
  }
  return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void take_over_ucx_log() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!std::getenv("UCX_LOG_LEVEL") && !std::getenv("UCX_LOG_FILE"))
      ucs_log_push_handler(&take_line);
  });
}

ucx_error_lines ucx_errors() {
  ucx_error_lines said{first_error.data(), last_error.data()};
  first_error[0] = last_error[0] = 0;
  return said;
}

}  // namespace troupe::transport::ucx
