#include "troupe/apps/common/status_line.hpp"

#include <cerrno>
#include <cmath>
#include <ostream>
#include <system_error>

namespace common {

namespace {

constexpr const char* clear_line = "\r\x1b[K";

}  // namespace

void status_line::show(const std::string& text) {
  if (terminal_)
    out_ << clear_line << text;
  else
    out_ << text << '\n';
  line_open_ = terminal_;
  flush();
}

void status_line::say(const std::string& text) {
  if (line_open_) out_ << '\n';
  line_open_ = false;
  out_ << text << '\n';
  flush();
}

void status_line::check() const {
  if (failure_ != 0)
    throw std::system_error(failure_, std::generic_category(), "cannot write standard output");
}

void status_line::flush() {
  out_ << std::flush;
  if (!out_ && failure_ == 0) failure_ = errno;
}

std::string with_commas(double value) {
  std::string digits = std::to_string(std::llround(value));
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

}  // namespace common
