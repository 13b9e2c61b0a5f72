#include "troupe/apps/info/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>

namespace troupe::info {

namespace {

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Bytes of a line of /proc/meminfo, 0 if there is none.
long long memory_bytes(const std::string& line_name) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  for (long long kibibytes = 0; file >> name >> kibibytes;
       file.ignore(std::numeric_limits<std::streamsize>::max(), '\n'))
    if (name == line_name + ":") return kibibytes * 1024;
  return 0;
}

long long free_shared_memory() {
  struct statvfs info {};
  if (statvfs("/dev/shm", &info) != 0) return 0;
  return static_cast<long long>(info.f_bavail) * static_cast<long long>(info.f_frsize);
}

/// Copies within this process: whether the system call is allowed at all.
bool can_call_readv(std::string& why) {
  char from = 'x';
  char to = 0;
  const iovec target{&to, 1};
  const iovec source{&from, 1};
  if (process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1) return true;
  why = fmt::format("process_vm_readv: {}", std::strerror(errno));
  return false;
}

/// Cross-memory attach: copies from another process without a detour.
report cma() {
  std::string why;
  if (!can_call_readv(why)) return {{"possible", false}, {"why", why}};
  int scope = 0;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  switch (scope) {
    case 0: return {{"possible", true}, {"why", "ptrace_scope is 0 or absent"}};
    case 1:
      if (geteuid() == 0)
        return {{"possible", true}, {"why", "ptrace_scope is 1, but this is root"}};
      return {{"possible", false},
              {"why", "ptrace_scope is 1; sysctl kernel.yama.ptrace_scope=0 allows it"}};
    default:
      return {{"possible", geteuid() == 0 && scope == 2},
              {"why", fmt::format("ptrace_scope is {}", scope)}};
  }
}

}  // namespace

report machine() {
  utsname system{};
  uname(&system);
  const report attach = cma();
  return {{"host", system.nodename},
          {"kernel", fmt::format("{} {} {}", system.sysname, system.release, system.machine)},
          {"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"usable_cores", usable_cores()},
          {"memory_bytes", memory_bytes("MemTotal")},
          {"available_bytes", memory_bytes("MemAvailable")},
          {"shared_memory_bytes", free_shared_memory()},
          {"cma", attach["possible"]},
          {"cma_why", attach["why"]}};
}

}  // namespace troupe::info
