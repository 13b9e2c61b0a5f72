#include "troupe/messages/base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "troupe/messages/base/utf8.hpp"

namespace troupe {

namespace {

bool is_plain(char c) noexcept { return (c >= 0x20 && c < 0x7f) || c == '\t'; }

// How many bytes the character at the start of `text` has; 0 for what is no UTF-8, and for control
// characters, those of two bytes (U+0080 to U+009F) included.
std::size_t printable_bytes(std::string_view text) noexcept {
  const auto length = bytes_of_character(text);
  const bool control = length == 1   ? !is_plain(text[0])
                       : length == 2 ? text.substr(0, 2) < "\xc2\xa0"
                                     : false;
  return control ? 0 : length;
}

// A text may come from another node, and shall not tell a terminal what to do: what is not
// printable is written as \x1b.
std::string printable(std::string_view line) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  while (!line.empty()) {
    const auto bytes = printable_bytes(line);
    if (bytes == 0) {
      const auto byte = static_cast<unsigned char>(line[0]);
      out.append("\\x").append({digits[byte >> 4], digits[byte & 15]});
    } else {
      out.append(line.substr(0, bytes));
    }
    line.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

class line_formatter final : public spdlog::formatter {
public:
  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& out) override {
    std::string_view rest(message.payload.data(), message.payload.size());
    while (rest.ends_with('\n')) rest.remove_suffix(1);
    auto line = message;
    bool first = true;
    do {
      const auto end = rest.find('\n');
      auto text = rest.substr(0, end);
      std::string changed;
      if (!std::all_of(text.begin(), text.end(), is_plain)) text = changed = printable(text);
      line.payload = spdlog::string_view_t(text.data(), text.size());
      line_.format(line, out);
      if (first) {  // a sink colours one stretch
        message.color_range_start = line.color_range_start;
        message.color_range_end = line.color_range_end;
        first = false;
      }
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    } while (!rest.empty());
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return make_log_formatter(); }

private:
  spdlog::pattern_formatter line_{"[troupe] [%^%l%$] %v"};
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_log_formatter() {
  return std::make_unique<line_formatter>();
}

spdlog::logger& log() {
  // Never destroyed: threads may log until the process ends.
  static const auto& logger = *new std::shared_ptr<spdlog::logger>([] {
    if (auto given = spdlog::get("troupe")) return given;
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_formatter(make_log_formatter());
    return made;
  }());
  return *logger;
}

}  // namespace troupe
