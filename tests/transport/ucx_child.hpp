#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/transport/conformance_backend.hpp"

extern char** environ;

namespace troupe::transport::test {

inline std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

inline std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

inline backend backend_named(const std::string& name) {
  for (const auto b : {backend::loopback, backend::ucx, backend::ucx_cma,
                       backend::ucx_shared_memory, backend::ucx_tcp, backend::ucx_between_hosts})
    if (name == name_of(b)) return b;
  throw std::runtime_error("no backend is called " + name);
}

/// A process that runs ucx_peer_program. Killed when this is destroyed.
class child {
public:
  /// `through`: a command that starts the program given to it, and becomes it.
  child(backend b, const std::string& mode, std::vector<std::string> through = {}) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> words = std::move(through);
    words.push_back(std::string(TROUPE_TEST_PROGRAM_DIR) + "/ucx_peer_program");
    words.push_back(name_of(b));
    words.push_back(mode);
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int failed =
        posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    input_ = in[1];
    output_ = fdopen(out[0], "r");
    if (failed) throw std::runtime_error("cannot start " + words[0]);
  }

  ~child() {
    end_input();
    std::fclose(output_);
    if (pid_ > 0) kill(SIGKILL);
  }

  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Its address; lines that UCX prints before are skipped.
  std::vector<std::byte> address() {
    while (true) {
      const auto text = line();
      if (text.size() > 100 && text.find_first_not_of("0123456789abcdef") == text.npos)
        return from_hex(text);
    }
  }

  /// When it lost its peer, by the clock of all processes; waits for that. Of those that echo.
  std::chrono::steady_clock::time_point lost_at() {
    constexpr std::string_view begin = "lost ";
    while (true) {
      const auto text = line();
      if (text.starts_with(begin))
        return std::chrono::steady_clock::time_point(
            std::chrono::nanoseconds(std::stoll(text.substr(begin.size()))));
    }
  }

  void tell(std::span<const std::byte> address) {
    const std::string line = to_hex(address) + "\n";
    if (write(input_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("the peer program ended early");
  }

  void end_input() {
    if (input_ >= 0) close(input_);
    input_ = -1;
  }

  void stop() { ::kill(pid_, SIGSTOP); }
  void go_on() { ::kill(pid_, SIGCONT); }

  /// Sends `signal` and waits for its end.
  void kill(int signal) {
    ::kill(pid_, signal);
    wait();
  }

  /// Its wait status.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

  pid_t pid() const { return pid_; }

private:
  // The next one that it writes.
  std::string line() {
    std::string text;
    for (int c = 0; (c = std::fgetc(output_)) != EOF; text += static_cast<char>(c))
      if (c == '\n') return text;
    throw std::runtime_error("the peer program ended early");
  }

  pid_t pid_ = 0;
  int input_ = -1;
  std::FILE* output_ = nullptr;
};

}  // namespace troupe::transport::test
