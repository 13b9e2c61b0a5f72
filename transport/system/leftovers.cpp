#include "troupe/transport/system/leftovers.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <memory>
#include <string_view>

namespace troupe::transport {

namespace {

constexpr std::string_view prefix = "ucx_shm_posix_";

// A segment that is being made is empty for a moment.
constexpr std::time_t young = 60;

bool is_segment(std::string_view name) {
  return name.starts_with(prefix) && name.size() > prefix.size() &&
         name.find_first_not_of("0123456789abcdef", prefix.size()) == name.npos;
}

struct descriptor {
  int fd;
  ~descriptor() {
    if (fd >= 0) close(fd);
  }
};

// The kernel gives a write lease only on a file that no other process has open or mapped, in any
// namespace. Process ids would not do: they are reused, and differ between containers.
bool is_unused(int fd) {
  // A process that opens it now would have SIGIO sent to us, which ends a process: another signal
  // is set first, which is ignored by default.
  return fcntl(fd, F_SETSIG, SIGURG) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
}

bool remove_if_left(int folder, const char* name) {
  struct stat before {
  }, now{};
  const descriptor file{openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0 || fstat(file.fd, &before) != 0 || !S_ISREG(before.st_mode) ||
      before.st_uid != geteuid())
    return false;
  if (before.st_size == 0 && std::time(nullptr) - before.st_ctime < young) return false;
  return is_unused(file.fd) && fstatat(folder, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
         now.st_dev == before.st_dev && now.st_ino == before.st_ino &&
         unlinkat(folder, name, 0) == 0;
}

}  // namespace

unsigned remove_leftovers(const std::string& folder) noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(folder.c_str()), &closedir);
  if (!entries) return 0;
  unsigned removed = 0;
  while (const dirent* entry = readdir(entries.get()))
    if (is_segment(entry->d_name) && remove_if_left(dirfd(entries.get()), entry->d_name)) ++removed;
  return removed;
}

}  // namespace troupe::transport
