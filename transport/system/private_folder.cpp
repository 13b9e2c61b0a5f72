#include "troupe/transport/system/private_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe::transport {

std::string not_private(int fd, mode_t type) {
  struct stat s {};
  if (fstat(fd, &s) != 0) return std::strerror(errno);
  if ((s.st_mode & S_IFMT) != type)
    return type == S_IFDIR ? "it is not a folder" : "it is not a regular file";
  if (s.st_uid != geteuid())
    return fmt::format("it belongs to user {}, not to user {}", s.st_uid, geteuid());
  if ((s.st_mode & 077) != 0)
    return fmt::format("others may use it (mode {:04o}); run chmod {} on it", s.st_mode & 07777,
                       type == S_IFDIR ? "700" : "600");
  return {};
}

// All checks are of the open descriptor, so that nothing can be put in its place meanwhile.
private_folder private_folder::open(const std::filesystem::path& path, bool make) {
  private_folder out;
  const auto try_open = [&] {
    out.fd = unique_fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return static_cast<bool>(out.fd);
  };
  if (!try_open() && errno == ENOENT && make)
    if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) try_open();
  if (!out.fd) {
    out.why = errno == ENOTDIR || errno == ELOOP ? "it is not a folder" : std::strerror(errno);
    return out;
  }
  out.why = not_private(out.fd.get(), S_IFDIR);
  if (!out.why.empty()) out.fd.reset();
  return out;
}

}  // namespace troupe::transport
