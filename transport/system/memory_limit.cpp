#include "troupe/transport/system/memory_limit.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

namespace troupe::transport {

namespace {

// Version 1 writes a number of about 2^63 where there is no limit.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

// What a version calls its files.
struct limit_files {
  const char *limit, *usage, *idle_cache, *active_cache;
};

constexpr limit_files version_2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr limit_files version_1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                "total_inactive_file", "total_active_file"};

std::optional<std::uint64_t> number_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// Memory of cached files counts as used, but is evicted when needed.
std::uint64_t cached_files(const std::filesystem::path& group, const limit_files& names) {
  std::ifstream in(group / "memory.stat");
  std::string key;
  std::uint64_t number = 0, sum = 0;
  while (in >> key >> number)
    if (key == names.idle_cache || key == names.active_cache) sum += number;
  return sum;
}

std::optional<memory_limit> limit_of(const std::filesystem::path& group, const limit_files& names) {
  const auto whole = number_in(group / names.limit);
  if (!whole || *whole >= no_limit) return std::nullopt;
  const auto usage = number_in(group / names.usage).value_or(0);
  const auto used = usage - std::min(usage, cached_files(group, names));
  return memory_limit{(group / names.limit).string(), *whole, *whole - std::min(*whole, used)};
}

// `path` begins at the root of the groups. A container may see its own group there, under the path
// that it has outside.
void look_at_groups(const std::filesystem::path& root, std::filesystem::path path,
                    const limit_files& names, std::optional<memory_limit>& least) {
  path = path.lexically_normal().relative_path();
  while (true) {
    auto one = limit_of(path.empty() ? root : root / path, names);
    if (one && (!least || one->left < least->left)) least = std::move(one);
    if (path.empty()) return;
    path = path.parent_path();
  }
}

}  // namespace

std::optional<memory_limit> find_memory_limit(const control_groups& where) {
  std::optional<memory_limit> least;
  const std::filesystem::path root = where.root;
  std::ifstream in(where.own);
  for (std::string line; std::getline(in, line);) {  // NUMBER:CONTROLLER,CONTROLLER:PATH
    const auto begin = line.find(':');
    const auto end = begin == line.npos ? begin : line.find(':', begin + 1);
    if (end == line.npos) continue;
    const auto controllers = "," + line.substr(begin + 1, end - begin - 1) + ",";
    const auto path = line.substr(end + 1);
    if (controllers == ",,")
      look_at_groups(root, path, version_2, least);
    else if (controllers.find(",memory,") != controllers.npos)
      look_at_groups(root / "memory", path, version_1, least);
  }
  return least;
}

}  // namespace troupe::transport
