#include "troupe/apps/run/guard.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "troupe/apps/run/processes.hpp"
#include "troupe/apps/run/status.hpp"

namespace troupe::launcher {

namespace {

/// Blocks what is waited for here: the end of a child and the signals to pass on, without those
/// that the user has chosen to ignore, as nohup does.
sigset_t block_signals() {
  sigset_t waited_for;
  sigemptyset(&waited_for);
  sigaddset(&waited_for, SIGCHLD);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&waited_for, signal);
  }
  sigprocmask(SIG_BLOCK, &waited_for, nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // ignored, it would hide how children end
  return waited_for;
}

void pass_on(int signal, int control) {
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(control, &byte, 1);
}

int wait_for(pid_t supervisor, const sigset_t& signals, int control) {
  for (;;) {
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) pass_on(signal, control);
    int status = 0;
    if (waitpid(supervisor, &status, WNOHANG) != supervisor) continue;
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "troupe-run: the supervisor {}; killing all ranks\n",
                 describe_status(status));
      kill_descendants();
    }
    return exit_code_of(status);
  }
}

}  // namespace

int guarded(const std::function<int(int control)>& supervise) {
  const sigset_t signals = block_signals();
  adopt_orphans();
  int control[2];
  if (pipe2(control, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  std::fflush(nullptr);
  const pid_t supervisor = fork();
  if (supervisor < 0)
    throw std::system_error(errno, std::generic_category(), "cannot start a process");
  if (supervisor == 0) {
    close(control[1]);
    adopt_orphans();
    return supervise(control[0]);
  }
  close(control[0]);
  std::signal(SIGPIPE, SIG_IGN);
  return wait_for(supervisor, signals, control[1]);
}

}  // namespace troupe::launcher
