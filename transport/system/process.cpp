#include "troupe/transport/system/process.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::transport {

namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::uint64_t inode(const char* path) {
  struct stat s {};
  if (stat(path, &s) != 0)
    throw transport_error(std::string("cannot read ") + path + ": " + std::strerror(errno) +
                          "; is /proc mounted?");
  return s.st_ino;
}

// Field 22 of /proc/PID/stat; the second field is a name in parentheses that may hold anything.
std::optional<std::uint64_t> start_time(std::uint32_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");
  std::size_t at = text.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  for (int field = 2; field < 22; ++field) {
    at = text.find(' ', at + 1);
    if (at == std::string::npos) return std::nullopt;
  }
  return std::strtoull(text.c_str() + at + 1, nullptr, 10);
}

std::array<std::byte, 16> boot_id() {
  const std::string text = read_file("/proc/sys/kernel/random/boot_id");
  std::array<std::byte, 16> id{};
  std::size_t digits = 0;
  for (const char c : text) {
    int value = 0;
    if (c >= '0' && c <= '9')
      value = c - '0';
    else if (c >= 'a' && c <= 'f')
      value = c - 'a' + 10;
    else
      continue;
    if (digits == 32) break;
    auto& byte = id[digits / 2];
    byte = static_cast<std::byte>(std::to_integer<int>(byte) << 4 | value);
    ++digits;
  }
  if (digits != 32)
    throw transport_error("cannot read /proc/sys/kernel/random/boot_id; is /proc mounted?");
  return id;
}

}  // namespace

process_identity this_process() {
  process_identity p;
  p.boot_id = boot_id();
  p.net_namespace = inode("/proc/self/ns/net");
  p.pid_namespace = inode("/proc/self/ns/pid");
  p.pid = static_cast<std::uint32_t>(getpid());
  const auto started = start_time(p.pid);
  if (!started) throw transport_error("cannot read /proc/self/stat; is /proc mounted?");
  p.start_time = *started;
  return p;
}

std::string apart(const process_identity& a, const process_identity& b) {
  if (a.boot_id != b.boot_id) return "another host";
  // Its wake-up socket would not be found, and it would sleep for ever.
  if (a.net_namespace != b.net_namespace) return "another network namespace of this host";
  // Its end could not be noticed.
  if (a.pid_namespace != b.pid_namespace) return "another process namespace of this host";
  return {};
}

int watch_process(const process_identity& who, std::string& why) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(who.pid), 0));
  if (fd < 0) {
    const int reason = errno;
    if (reason == ESRCH)
      throw peer_lost("process " + std::to_string(who.pid) + " has ended already");
    why = std::string("pidfd_open failed: ") + std::strerror(reason);
    if (reason == EMFILE || reason == ENFILE) throw transport_error(why + descriptor_shortage());
    return -1;
  }
  // The number may have been given to another process; checked once the descriptor pins it.
  errno = 0;
  const auto started = start_time(who.pid);
  if (!started && (errno == EMFILE || errno == ENFILE)) {
    const std::string reason = std::strerror(errno);
    close(fd);
    throw transport_error("process " + std::to_string(who.pid) + " cannot be looked at: " + reason +
                          descriptor_shortage());
  }
  if (!started || *started != who.start_time) {
    close(fd);
    throw peer_lost("process " + std::to_string(who.pid) + " has ended already");
  }
  return fd;
}

}  // namespace troupe::transport
