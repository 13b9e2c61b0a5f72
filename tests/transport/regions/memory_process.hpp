#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

extern char** environ;

namespace troupe::transport::test {

inline std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

inline void from_hex(const std::string& text, std::span<std::byte> out) {
  if (text.size() != 2 * out.size()) throw std::runtime_error("no address: " + text);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::byte>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
}

/// A process that runs memory_program. Killed when this goes.
class memory_process {
public:
  explicit memory_process(std::vector<std::string> words) {
    words.insert(words.begin(), std::string(TROUPE_TEST_PROGRAM_DIR) + "/memory_program");
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed =
        posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = fdopen(out[0], "r");
    if (failed != 0) throw std::runtime_error("cannot start " + words[0]);
  }
  ~memory_process() {
    kill();
    close(input_);
    fclose(output_);
  }
  memory_process(const memory_process&) = delete;
  memory_process& operator=(const memory_process&) = delete;

  int pid() const { return pid_; }

  /// Sends a line, and returns the next one that it writes; empty: it has ended.
  std::string ask(const std::string& text) {
    const auto line = text + "\n";
    if (write(input_, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return {};
    return line_of();
  }

  /// The next line that it writes.
  std::string line_of() {
    std::string line;
    for (int c = fgetc(output_); c != EOF && c != '\n'; c = fgetc(output_))
      line += static_cast<char>(c);
    return line;
  }

  void signal(int what) const { ::kill(pid_, what); }

  /// Returns when it stands still.
  void stop() const {
    signal(SIGSTOP);
    siginfo_t stopped{};
    waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED);
  }

  void kill() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  /// Once it has ended by itself; -1: a signal has ended it.
  int exit_code() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

private:
  pid_t pid_ = 0;
  int input_ = -1;
  FILE* output_ = nullptr;
};

}  // namespace troupe::transport::test
