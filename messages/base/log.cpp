#include "troupe/messages/base/log.hpp"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
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

// A text may come from another node and must not control a terminal: what is not printable is
// written as \x1b.
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

// "[rank 1 worker1] " once the process has a node. Never destroyed: threads may log until the
// process ends.
std::atomic<std::shared_ptr<const std::string>>& identity() {
  static auto& one = *new std::atomic<std::shared_ptr<const std::string>>;
  return one;
}

class identity_flag final : public spdlog::custom_flag_formatter {
public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    if (const auto who = identity().load()) out.append(who->data(), who->data() + who->size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<identity_flag>();
  }
};

class line_formatter final : public spdlog::formatter {
public:
  line_formatter() {
    line_.add_flag<identity_flag>('*').set_pattern("[%Y-%m-%d %H:%M:%S.%e] [troupe] %*[%^%l%$] %v");
  }

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
  spdlog::pattern_formatter line_;
};

}  // namespace

std::unique_ptr<spdlog::formatter> make_log_formatter() {
  return std::make_unique<line_formatter>();
}

namespace {

std::optional<spdlog::level::level_enum> level_named(std::string_view name) {
  for (const auto level : {spdlog::level::debug, spdlog::level::info, spdlog::level::warn,
                           spdlog::level::err, spdlog::level::off}) {
    const auto known = spdlog::level::to_string_view(level);
    if (name == std::string_view(known.data(), known.size())) return level;
  }
  return std::nullopt;
}

}  // namespace

void log_as(std::uint32_t rank, std::string_view name) {
  identity() =
      std::make_shared<const std::string>(printable(fmt::format("[rank {} {}] ", rank, name)));
}

spdlog::logger& log() {
  // Never destroyed: threads may log until the process ends.
  static const auto& logger = *new std::shared_ptr<spdlog::logger>([] {
    if (auto given = spdlog::get("troupe")) return given;
    auto made = spdlog::stderr_color_mt("troupe");
    made->set_formatter(make_log_formatter());
    const char* const wanted = std::getenv("TROUPE_LOG");
    if (!wanted || *wanted == '\0') return made;
    if (const auto level = level_named(wanted))
      made->set_level(*level);
    else
      made->warn("TROUPE_LOG is '{}', but must be debug, info, warning, error or off", wanted);
    return made;
  }());
  return *logger;
}

}  // namespace troupe
