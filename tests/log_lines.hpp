#pragma once

#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>

#include "troupe/messages/base/log.hpp"

namespace troupe::test {

/// Takes what is logged while it lives, from warnings on or from another level. One at a time.
class log_lines {
public:
  explicit log_lines(spdlog::level::level_enum least = spdlog::level::warn)
      : sink_(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)) {
    sink_->set_level(least);
    log().sinks().push_back(sink_);
  }
  ~log_lines() { log().sinks().pop_back(); }
  log_lines(const log_lines&) = delete;
  log_lines& operator=(const log_lines&) = delete;

  /// How many lines have that in them. Nobody may log meanwhile.
  int with(const std::string& what) const {
    std::istringstream lines(text_.str());
    int found = 0;
    for (std::string line; std::getline(lines, line);) found += line.find(what) != line.npos;
    return found;
  }
  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
  const std::shared_ptr<spdlog::sinks::ostream_sink_mt> sink_;
};

}  // namespace troupe::test
