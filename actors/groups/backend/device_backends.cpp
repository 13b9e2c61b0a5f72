#include "troupe/actors/groups/backend/device_backends.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/backend/text.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(mark, begin)) != std::string::npos; begin = end + 1)
    out.push_back(text.substr(begin, end - begin));
  out.push_back(text.substr(begin));
  return out;
}

void check_device(const std::string& device, const std::string& backend) {
  if (!is_device_type(device))
    throw invalid_argument(fmt::format(
        "Unknown device type {} in a backend string: write it as libtorch does, \"cpu\", "
        "\"cuda\" or \"xpu\"",
        device));
  const auto takes = find_backend(backend).devices;
  if (std::ranges::find(takes, device) == takes.end() &&
      std::ranges::find(takes, any_device) == takes.end())
    throw invalid_argument(fmt::format("backend '{}' takes no tensors on {}, only those on {}",
                                       backend, device, fmt::join(takes, ", ")));
}

}  // namespace

std::map<std::string, std::string> parse_backends(const std::string& text) {
  const auto lower = lower_case(text);
  std::map<std::string, std::string> out;
  if (lower.find(':') == std::string::npos) {
    for (const auto& device : find_backend(lower).devices) out.emplace(device, lower);
    return out;
  }
  const auto usage = fmt::format(
      "The custom backend string argument is invalid: {}. It must be in the format "
      "\"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:troupe,cuda:nccl'",
      text);
  for (const auto& pair : split_at(lower, ',')) {
    const auto parts = split_at(pair, ':');
    if (parts.size() != 2)
      throw invalid_argument(fmt::format("Invalid device:backend pairing: {}. {}", pair, usage));
    check_device(parts[0], parts[1]);
    if (!out.emplace(parts[0], parts[1]).second)
      throw invalid_argument(
          fmt::format("Duplicate device type {} in backend string: {}. {}", parts[0], text, usage));
  }
  return out;
}

std::string to_string(const std::map<std::string, std::string>& backends) {
  if (const auto any = backends.find(std::string(any_device)); any != backends.end())
    return any->second;
  std::string out;
  for (const auto& [device, name] : backends)
    out += fmt::format("{}{}:{}", out.empty() ? "" : ",", device, name);
  return out;
}

}  // namespace troupe::groups
