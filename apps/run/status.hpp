#pragma once

#include <string>

namespace troupe::launcher {

/// "SIGSEGV (segmentation fault)".
std::string describe_signal(int signal);

/// How a process ended, of a status as waitpid gives it: "exited with code 3" or "was ended by
/// SIGSEGV (segmentation fault)".
std::string describe_status(int status);

/// The exit code, or 128 + the signal.
int exit_code_of(int status);

}  // namespace troupe::launcher
