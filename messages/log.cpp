#include "messages/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace troupe {

spdlog::logger& log() {
  // Never destroyed: threads may log until the process ends.
  static const auto& logger = *new std::shared_ptr<spdlog::logger>([] {
    if (auto given = spdlog::get("troupe")) return given;
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_pattern("[troupe] [%^%l%$] %v");
    return made;
  }());
  return *logger;
}

}  // namespace troupe
