#include "troupe/apps/info/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "troupe/apps/info/gpus.hpp"
#include "troupe/apps/info/machine.hpp"
#include "troupe/apps/info/tensor_memory.hpp"
#include "troupe/apps/info/threads.hpp"
#include "troupe/apps/info/transports.hpp"
#include "troupe/apps/info/versions.hpp"

namespace troupe::info {

namespace {

bool is_environment_variable(const std::string& key) {
  return std::none_of(key.begin(), key.end(), [](char c) { return c >= 'a' && c <= 'z'; });
}

/// "usable_cores" as a person reads it; the unit stands with the value.
std::string heading(std::string key) {
  if (is_environment_variable(key)) return key;
  if (key.ends_with("_bytes")) key.resize(key.size() - std::string_view("_bytes").size());
  std::replace(key.begin(), key.end(), '_', ' ');
  return key;
}

std::string value_text(const std::string& key, const report& value) {
  if (key.ends_with("_bytes"))
    return fmt::format("{:.1f} GiB", value.get<double>() / (1024.0 * 1024.0 * 1024.0));
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.dump();
}

/// A table's row on one line: "transport posix, device memory".
std::string row_text(const report& row) {
  std::string line;
  for (const auto& [key, value] : row.items())
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", heading(key), value_text(key, value));
  return line;
}

}  // namespace

report machine_report() {
  report all;
  all["versions"] = versions();
  all["machine"] = machine();
  all["transports"] = transports();
  all["tensor_memory"] = tensor_memory();
  all["gpus"] = gpus();
  all["threads"] = threads();
  return all;
}

std::string to_text(const report& of) {
  std::string text;
  for (const auto& [title, section] : of.items()) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", heading(title));
    for (const auto& [key, value] : section.items()) {
      if (!value.is_array()) {
        text += fmt::format("  {:<24} {}\n", heading(key), value_text(key, value));
        continue;
      }
      text += fmt::format("  {}{}\n", heading(key), value.empty() ? ": none" : "");
      for (const report& row : value) text += fmt::format("    {}\n", row_text(row));
    }
  }
  return text;
}

}  // namespace troupe::info
