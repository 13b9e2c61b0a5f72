#pragma once

#include <sched.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace troupe::launcher {

/// What one rank is started from.
struct child_spec {
  std::string path;                      ///< of the program
  std::vector<std::string> arguments;    ///< with the program's name
  std::vector<std::string> environment;  ///< NAME=value
  int input = -1;                        ///< becomes its standard input; -1: /dev/null
  std::optional<rlimit> descriptors;     ///< its limit (ulimit -n), if not the launcher's own
  std::optional<cpu_set_t> processors;   ///< that it may use, if not the launcher's own
};

/// A rank that runs.
struct child {
  pid_t pid = -1;   ///< also its process group
  int output = -1;  ///< reads its standard output; non-blocking, the caller closes it
  int errors = -1;  ///< the same for standard error
};

/// Starts a process in a group of its own, which the kernel kills when the calling thread dies.
/// Throws program_error when the program cannot be executed, std::system_error when the machine is
/// out of processes or file descriptors.
child start_child(const child_spec& spec);

}  // namespace troupe::launcher
