#include "troupe/apps/run/child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "troupe/apps/run/program.hpp"

namespace troupe::launcher {

namespace {

/// Both ends of a pipe, closed unless taken.
struct pipe_ends {
  int read = -1;
  int write = -1;

  pipe_ends() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot make a pipe for a rank");
    read = ends[0];
    write = ends[1];
  }
  pipe_ends(const pipe_ends&) = delete;
  pipe_ends& operator=(const pipe_ends&) = delete;
  ~pipe_ends() {
    close_end(read);
    close_end(write);
  }

  static void close_end(int& fd) {
    if (fd >= 0) close(fd);
    fd = -1;
  }

  int take_read() { return std::exchange(read, -1); }
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

/// Undoes what the launcher changed for itself; what the user chose to ignore (nohup) stays
/// ignored.
void reset_signals() {
  for (int signal : {SIGPIPE, SIGTTIN}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// In the new process: becomes the program, or reports errno to `report` and exits.
[[noreturn]] void become(const child_spec& spec, char* const* arguments, char* const* environment,
                         pid_t parent, int output, int errors, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // died before the line above
  reset_signals();
  int input = spec.input;
  if (input < 0) input = open("/dev/null", O_RDONLY);
  // Standard streams that were closed have let the pipes take the numbers 0 to 2: move them first.
  input = fcntl(input, F_DUPFD_CLOEXEC, 3);
  output = fcntl(output, F_DUPFD_CLOEXEC, 3);
  errors = fcntl(errors, F_DUPFD_CLOEXEC, 3);
  report = fcntl(report, F_DUPFD_CLOEXEC, 3);
  if (dup2(input, 0) >= 0 && dup2(output, 1) >= 0 && dup2(errors, 2) >= 0 &&
      (!spec.processors || sched_setaffinity(0, sizeof *spec.processors, &*spec.processors) == 0) &&
      (!spec.descriptors || setrlimit(RLIMIT_NOFILE, &*spec.descriptors) == 0))
    execve(spec.path.c_str(), arguments, environment);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = write(report, &error, sizeof error);
  _exit(127);
}

std::string why_not(const std::string& path, int error) {
  if (error == ENOEXEC)
    return fmt::format(
        "{}: not a program of this machine; a script needs a first line such as "
        "#!/bin/sh",
        path);
  if (error == ENOENT)
    return fmt::format("{}: its interpreter (the #! line, or the loader) is missing", path);
  return fmt::format("{}: cannot be run: {}", path, std::strerror(error));
}

}  // namespace

child start_child(const child_spec& spec) {
  pipe_ends output, errors, report;
  const std::vector<char*> arguments = pointers(spec.arguments);
  const std::vector<char*> environment = pointers(spec.environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "cannot start a process");
  if (pid == 0)
    become(spec, arguments.data(), environment.data(), parent, output.write, errors.write,
           report.write);
  setpgid(pid, pid);  // also here, so that a signal to the group cannot come too early
  pipe_ends::close_end(report.write);
  int error = 0;
  if (read(report.read, &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
    throw program_error(why_not(spec.path, error), 126);
  }
  fcntl(output.read, F_SETFL, O_NONBLOCK);
  fcntl(errors.read, F_SETFL, O_NONBLOCK);
  return {pid, output.take_read(), errors.take_read()};
}

}  // namespace troupe::launcher
