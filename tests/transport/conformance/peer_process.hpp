#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/transport/conformance/conformance_backend.hpp"

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

inline tested_backend backend_named(const std::string& name) {
  for (const auto b :
       {tested_backend::ucx, tested_backend::ucx_cma, tested_backend::ucx_shared_memory,
        tested_backend::ucx_tcp, tested_backend::ucx_between_hosts, tested_backend::tcp})
    if (name == name_of(b)) return b;
  throw std::runtime_error("no backend is called " + name);
}

/// A process that runs peer_program. Killed when this is destroyed.
class child {
public:
  /// `through`: a command that starts the program given to it, and becomes it.
  child(tested_backend b, const std::string& mode, std::vector<std::string> through = {}) {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
      throw std::runtime_error("no pipes");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> words = std::move(through);
    words.push_back(std::string(TROUPE_TEST_PROGRAM_DIR) + "/peer_program");
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
    output_ = out[0];
    if (failed) throw std::runtime_error("cannot start " + words[0]);
  }

  ~child() {
    end_input();
    close(output_);
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

  /// When it lost its peer, by the clock of all processes; waits for that, `limit` at most. Of
  /// those that echo.
  std::chrono::steady_clock::time_point lost_at(std::chrono::milliseconds limit) {
    constexpr std::string_view begin = "lost ";
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (true) {
      const auto text = line(deadline);
      if (text.starts_with(begin))
        return std::chrono::steady_clock::time_point(
            std::chrono::nanoseconds(std::stoll(text.substr(begin.size()))));
    }
  }

  void send_address(std::span<const std::byte> address) {
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
  std::string line(std::chrono::steady_clock::time_point deadline =
                       std::chrono::steady_clock::time_point::max()) {
    while (true) {
      if (const auto end = written_.find('\n'); end != written_.npos) {
        const auto text = written_.substr(0, end);
        written_.erase(0, end + 1);
        return text;
      }
      if (!may_read(deadline)) throw std::runtime_error("the peer program prints nothing");
      char more[4096];
      const auto n = read(output_, more, sizeof more);
      if (n <= 0) throw std::runtime_error("the peer program ended early");
      written_.append(more, static_cast<std::size_t>(n));
    }
  }

  bool may_read(std::chrono::steady_clock::time_point deadline) const {
    using namespace std::chrono;
    pollfd p{output_, POLLIN, 0};
    int n = 0;
    do {
      const auto left = ceil<milliseconds>(deadline - steady_clock::now()).count();
      n = poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000)));
    } while (n == 0 && steady_clock::now() < deadline);
    return n > 0;
  }

  pid_t pid_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::string written_;  // and not yet read as lines
};

}  // namespace troupe::transport::test
