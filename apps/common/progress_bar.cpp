#include "troupe/apps/common/progress_bar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace common {

namespace {

constexpr int bar_width = 20;
constexpr double redraw_seconds = 0.1;
constexpr double line_seconds = 1;

std::string rate_text(double rate) {
  return rate < 10 ? fmt::format("{:.1f}/s", rate) : with_commas(rate) + "/s";
}

std::string duration_text(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string bar_text(const work_done& how, const std::string& note) {
  const double share =
      how.total > 0 ? std::clamp(double(how.done) / double(how.total), 0.0, 1.0) : 1;
  const int filled = static_cast<int>(share * bar_width);
  std::string text =
      fmt::format("{} [{:#<{}}{:-<{}}] {:3} %  {} of {} {}", how.title, "", filled, "",
                  bar_width - filled, static_cast<int>(share * 100), with_commas(double(how.done)),
                  with_commas(double(how.total)), how.unit);
  if (how.seconds > 0 && how.done > 0) {
    const double rate = double(how.done) / how.seconds;
    text += "  " + rate_text(rate);
    if (how.done < how.total)
      text += "  " + duration_text(double(how.total - how.done) / rate) + " left";
  }
  if (!note.empty()) text += "  " + note;
  return text;
}

progress_bar::progress_bar(status_line& line, std::string title, std::string unit,
                           std::int64_t total)
    : line_(line), how_{.title = std::move(title), .unit = std::move(unit), .total = total} {}

bool progress_bar::due(double seconds) const {
  return seconds >= shown_seconds_ + (line_.terminal() ? redraw_seconds : line_seconds);
}

void progress_bar::update(std::int64_t done, double seconds, const std::string& note) {
  const bool ends = done >= how_.total && how_.done < how_.total;
  if (!ends && !due(seconds)) return;
  how_.done = done;
  how_.seconds = shown_seconds_ = seconds;
  line_.show(bar_text(how_, note));
}

}  // namespace common
