#include "troupe/transport/rendezvous/host.hpp"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace troupe::transport {

host_identity this_host() {
  host_identity out;
  char name[HOST_NAME_MAX + 1] = {};
  gethostname(name, HOST_NAME_MAX);
  out.name = *name ? name : "unknown host";
  // Clones of one virtual machine share the boot id; containers of one host share it too, but not
  // the network namespace. Each alone would bring together processes that cannot share memory.
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) != 0) space.st_ino = 0;
  out.network = boot + " " + std::to_string(space.st_ino);
  out.id = out.network + " " + out.name;
  if (stat("/proc/self/ns/pid", &space) == 0) out.process_namespace = space.st_ino;
  out.process = static_cast<std::uint64_t>(getpid());
  return out;
}

}  // namespace troupe::transport
