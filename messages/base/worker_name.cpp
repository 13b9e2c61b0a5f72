#include "troupe/messages/base/worker_name.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe {

namespace {

constexpr std::size_t longest_name = 127;
constexpr std::size_t longest_shown = 255;

std::string problem_of_one(std::string_view name) {
  if (name.empty()) return "must be non-empty";
  if (name.size() > longest_name)
    return fmt::format("must be shorter than 128 characters, but has {}", name.size());
  const bool matches = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == ':' || c == '-';
  });
  return matches ? "" : fmt::format("must match [A-Za-z0-9_:-]+, but is '{}'", name);
}

}  // namespace

std::vector<std::string> worker_names(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const auto comma = text.find(',');
    names.emplace_back(text.substr(0, comma));
    if (comma == text.npos) return names;
    text.remove_prefix(comma + 1);
  }
}

std::string worker_name_problem(std::string_view text) {
  auto names = worker_names(text);
  for (const auto& name : names)
    if (auto problem = problem_of_one(name); !problem.empty()) return problem;
  if (text.size() > longest_shown)
    return fmt::format("and its aliases must have {} characters at most, but have {}",
                       longest_shown, text.size());
  std::ranges::sort(names);
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
    return fmt::format("'{}' is given twice", *twice);
  return "";
}

std::string complete_worker_name(std::string_view text, std::uint32_t rank) {
  const bool has_first = !text.empty() && text.front() != ',';
  return (has_first ? "" : fmt::format("worker{}", rank)) + std::string(text);
}

bool share_worker_name(std::string_view a, std::string_view b) {
  const auto ours = worker_names(a);
  const auto theirs = worker_names(b);
  return std::ranges::find_first_of(ours, theirs) != ours.end();
}

}  // namespace troupe
