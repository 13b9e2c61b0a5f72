#include "troupe/apps/run/program.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace troupe::launcher {

namespace {

constexpr int not_runnable = 126;
constexpr int not_found = 127;

bool is_file(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::string check_path(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    throw program_error(fmt::format("{}: {}", path, std::strerror(errno)), not_found);
  if (S_ISDIR(info.st_mode))
    throw program_error(fmt::format("{}: is a directory, not a program", path), not_runnable);
  if (access(path.c_str(), X_OK) != 0)
    throw program_error(fmt::format("{}: not executable; chmod +x it, or name its interpreter, as "
                                    "in `python3 {}`",
                                    path, path),
                        not_runnable);
  return path;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return check_path(name);
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_file(candidate) && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  const std::string hint =
      is_file(name) ? fmt::format("; did you mean ./{}?", name) : std::string();
  throw program_error(fmt::format("{}: not found in PATH{}", name, hint), not_found);
}

}  // namespace troupe::launcher
