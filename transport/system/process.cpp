#include "troupe/transport/system/process.hpp"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sodium.h>
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

// Clones of one virtual machine share the boot id, so the name tells as well.
std::array<std::byte, 16> this_host() {
  const std::string boot = read_file("/proc/sys/kernel/random/boot_id");
  if (boot.empty())
    throw transport_error("cannot read /proc/sys/kernel/random/boot_id; is /proc mounted?");
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), HOST_NAME_MAX);
  const auto all = boot + name.data();
  if (sodium_init() < 0) throw transport_error("libsodium cannot be initialised");
  std::array<std::byte, 16> out;
  crypto_generichash(reinterpret_cast<unsigned char*>(out.data()), out.size(),
                     reinterpret_cast<const unsigned char*>(all.data()), all.size(), nullptr, 0);
  return out;
}

bool is_readable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

}  // namespace

process_identity this_process() {
  process_identity p;
  p.host = this_host();
  p.net_namespace = inode("/proc/self/ns/net");
  p.pid_namespace = inode("/proc/self/ns/pid");
  p.pid = static_cast<std::uint32_t>(getpid());
  const auto started = start_time(p.pid);
  if (!started) throw transport_error("cannot read /proc/self/stat; is /proc mounted?");
  p.start_time = *started;
  return p;
}

std::string apart(const process_identity& a, const process_identity& b) {
  if (a.host != b.host) return "another host";
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
    // A thread may have the number now, which has no descriptor of that kind.
    const auto started = start_time(who.pid);
    if ((reason == EINVAL || reason == ENOENT) && started && *started != who.start_time)
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
    throw transport_error("process " + std::to_string(who.pid) + " cannot be examined: " + reason +
                          descriptor_shortage());
  }
  if (!started && !is_readable(fd)) {
    close(fd);
    why = "/proc/" + std::to_string(who.pid) + "/stat cannot be read";
    return -1;
  }
  if (!started || *started != who.start_time) {
    close(fd);
    throw peer_lost("process " + std::to_string(who.pid) + " has ended already");
  }
  return fd;
}

}  // namespace troupe::transport
