// The launcher on a terminal: what is typed, Ctrl-C, colours and progress lines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>

namespace troupe::test {
namespace {

/// troupe-run with two ranks of a shell on a terminal of its own.
class terminal {
public:
  explicit terminal(const char* script) {
    const std::string program = std::string(TROUPE_APPS_DIR) + "/troupe-run";
    pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    if (pid_ != 0) return;
    unsetenv("NO_COLOR");
    execl(program.c_str(), "troupe-run", "-n", "2", "sh", "-c", script, nullptr);
    _exit(99);
  }
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;
  ~terminal() {
    kill(pid_, SIGKILL);
    close(fd_);
    if (!ended_) waitpid(pid_, nullptr, 0);
  }

  void type(const std::string& text) {
    ASSERT_EQ(write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// Reads until `text` has been shown, or to the end.
  const std::string& read_until(const std::string& text) {
    char bytes[4096];
    ssize_t count = 0;
    while (shown_.find(text) == std::string::npos && (count = read(fd_, bytes, sizeof bytes)) > 0)
      shown_.append(bytes, static_cast<std::size_t>(count));
    return shown_;
  }

  const std::string& read_all() { return read_until("\x01 never shown"); }

  int exit_code() {
    int status = 0;
    waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  int fd_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
  std::string shown_;
};

TEST(launcher_terminal, passes_what_is_typed_to_rank_0) {
  terminal screen("[ $RANK = 0 ] && { read word; echo got $word; }; true");
  screen.type("hello\n");
  EXPECT_THAT(screen.read_all(), testing::HasSubstr("\033[31m[0]\033[0m got hello\r\n"));
  EXPECT_EQ(screen.exit_code(), 0);
}

TEST(launcher_terminal, passes_control_c_on_once) {
  terminal screen("trap 'echo interrupted; exit 1' INT; echo ready; sleep 300 & wait");
  screen.read_until("[1]\033[0m ready");
  screen.read_until("[0]\033[0m ready");
  screen.type("\x03");
  const std::string shown = screen.read_all();
  EXPECT_THAT(shown, testing::HasSubstr("passing SIGINT (interrupt) on to 2 ranks"));
  EXPECT_THAT(shown, testing::HasSubstr("[0]\033[0m interrupted"));
  EXPECT_THAT(shown, testing::HasSubstr("[1]\033[0m interrupted"));
  EXPECT_EQ(screen.exit_code(), 128 + SIGINT);
}

TEST(launcher_terminal, finishes_progress_on_one_output_before_a_line_on_the_other) {
  const auto shown = testing::TempDir() + "run_terminal_test." + std::to_string(getpid());
  const auto script = "[ $RANK = 1 ] && { printf '\\r10%%' >&2; while [ ! -e " + shown +
                      " ]; do sleep 0.01; done; echo done; }; true";
  terminal screen(script.c_str());
  screen.read_until("10%");
  std::ofstream(shown).close();
  EXPECT_THAT(screen.read_all(), testing::HasSubstr("10%\r\n\033[32m[1]\033[0m done\r\n"));
  std::remove(shown.c_str());
}

}  // namespace
}  // namespace troupe::test
