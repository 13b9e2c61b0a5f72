#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>

namespace troupe::test {

/// The exit status of `child`, which is ended when it hangs; -1: it did not exit.
inline int status_of(pid_t child) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) != child) {
    if (std::chrono::steady_clock::now() > limit) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// What `f` returns in a child of its own; 99: it threw.
template <class F>
int in_child(F&& f) {
  const pid_t child = fork();
  if (child != 0) return status_of(child);
  int status = 99;
  try {
    status = f();
  } catch (...) {
  }
  _exit(status);
}

/// Does `f` throw an Error that reports that this process was forked?
template <class Error, class F>
bool refused_as_forked(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return std::string(e.what()).find("forked") != std::string::npos;
  } catch (...) {
  }
  return false;
}

/// A forked process that does nothing, for as long as this lives.
class idle_child {
public:
  idle_child() : pid_(fork()) {
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  ~idle_child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  idle_child(const idle_child&) = delete;
  idle_child& operator=(const idle_child&) = delete;

private:
  const pid_t pid_;
};

/// A process that makes something and forks an idle one, which outlives it.
class parent_of_an_idle_child {
public:
  template <class Make>
  explicit parent_of_an_idle_child(const Make& make) {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    pid_ = fork();
    if (pid_ == 0) {
      try {
        const auto made = make();
        const pid_t parent = getpid();
        const pid_t child = fork();
        if (child == 0) write_pid(ends[1], getpid());  // it has begun
        if (getpid() != parent || child > 0)
          for (;;) pause();
      } catch (...) {
      }
      _exit(1);
    }
    close(ends[1]);
    if (read(ends[0], &child_, sizeof child_) != static_cast<ssize_t>(sizeof child_)) child_ = 0;
    close(ends[0]);
  }
  ~parent_of_an_idle_child() {
    kill();
    if (child_ > 0) ::kill(child_, SIGKILL);
  }
  parent_of_an_idle_child(const parent_of_an_idle_child&) = delete;
  parent_of_an_idle_child& operator=(const parent_of_an_idle_child&) = delete;

  /// It has been made, and the child lives.
  bool ready() const { return child_ > 0; }

  /// The parent alone.
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

private:
  static void write_pid(int to, pid_t what) {
    if (write(to, &what, sizeof what) != static_cast<ssize_t>(sizeof what)) _exit(2);
  }

  pid_t pid_ = 0;
  pid_t child_ = 0;
};

}  // namespace troupe::test
