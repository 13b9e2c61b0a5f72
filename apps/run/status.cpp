#include "troupe/apps/run/status.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cctype>
#include <cstring>

namespace troupe::launcher {

std::string describe_signal(int signal) {
  const char* name = sigabbrev_np(signal);
  if (name == nullptr) return fmt::format("signal {}", signal);
  std::string text = sigdescr_np(signal);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return fmt::format("SIG{} ({})", name, text);
}

std::string describe_status(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  return fmt::format("was ended by {}{}", describe_signal(WTERMSIG(status)),
                     WCOREDUMP(status) ? ", core dumped" : "");
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace troupe::launcher
