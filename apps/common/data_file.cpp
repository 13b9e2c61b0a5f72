#include "troupe/apps/common/data_file.hpp"

#include <filesystem>
#include <system_error>

namespace common {

std::string data_file(const std::string& name, const std::string& built) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) return built;
  const auto installed =
      (program.parent_path() / TROUPE_DATA_FROM_PROGRAM / name).lexically_normal();
  return std::filesystem::exists(installed, failed) ? installed.string() : built;
}

}  // namespace common
