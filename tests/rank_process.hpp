#pragma once

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace troupe::test {

/// A program as a process of its own, a rank of a job for example. Killed when this goes.
class rank_process {
public:
  /// `words`: the program's path and its arguments. Throws std::runtime_error when it cannot be
  /// started.
  explicit rank_process(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (posix_spawnp(&pid_, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0)
      throw std::runtime_error("cannot start " + words[0]);
  }
  ~rank_process() {
    if (ended()) return;
    kill();
    waitpid(pid_, nullptr, 0);
  }
  rank_process(const rank_process&) = delete;
  rank_process& operator=(const rank_process&) = delete;

  int pid() const { return pid_; }
  void kill() const { signal(SIGKILL); }
  /// Returns when it stands still, unless it has ended.
  void stop() const {
    signal(SIGSTOP);
    siginfo_t stopped{};
    waitid(P_PID, pid_, &stopped, WSTOPPED);
  }
  void go_on() const { signal(SIGCONT); }

  bool ended() {
    if (!ended_ && waitpid(pid_, &status_, WNOHANG) == pid_) ended_ = true;
    return ended_;
  }

  /// What it has exited with; -1 while it runs, and when a signal has ended it.
  int exit_code() { return ended() && WIFEXITED(status_) ? WEXITSTATUS(status_) : -1; }

  /// Ended by itself, without an error?
  bool ended_well() { return exit_code() == 0; }

private:
  void signal(int what) const { ::kill(pid_, what); }

  pid_t pid_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

}  // namespace troupe::test
