#include "tests/apps/run/launcher_harness.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace troupe::test {

namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string make_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "troupe-run-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary folder");
  return path;
}

int exit_code(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void redirect(const std::string& path, int flags, int to) {
  const int fd = open(path.c_str(), flags, 0600);
  if (fd < 0 || dup2(fd, to) < 0) _exit(99);
}

}  // namespace

bool soon(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  // Less and less often: what looks at all of /proc is in the way of those who end there.
  for (std::chrono::milliseconds pause(5); !condition();
       pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
    if (std::chrono::steady_clock::now() > deadline) return condition();
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::vector<std::string> launch_result::out_lines() const {
  std::vector<std::string> lines;
  std::istringstream text(out);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

launch::launch(std::vector<std::string> arguments, std::vector<std::string> environment,
               const std::string& input)
    : folder_(make_folder()) {
  mark_ = "TROUPE_TEST_MARK=" + folder_;
  environment.push_back(mark_);
  std::ofstream(folder_ + "/in", std::ios::binary) << input;
  const std::string program = std::string(TROUPE_APPS_DIR) + "/troupe-run";
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ < 0) throw std::runtime_error("cannot fork");
  if (pid_ > 0) return;
  for (std::string& variable : environment) putenv(variable.data());
  redirect(folder_ + "/in", O_RDONLY, 0);
  redirect(folder_ + "/out", O_WRONLY | O_CREAT | O_APPEND, 1);
  redirect(folder_ + "/err", O_WRONLY | O_CREAT | O_APPEND, 2);
  setpgid(0, 0);
  execv(program.c_str(), argv.data());
  _exit(99);
}

launch::~launch() {
  soon([&] {
    const auto left = processes();
    for (pid_t process : left) kill(process, SIGKILL);
    return left.empty();
  });
  if (!ended_) waitpid(pid_, nullptr, 0);
  std::filesystem::remove_all(folder_);
}

void launch::signal(int number) const { kill(pid_, number); }

std::string launch::out() const { return read_file(folder_ + "/out"); }

std::string launch::err() const { return read_file(folder_ + "/err"); }

launch_result launch::wait() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(200);
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("troupe-run does not end; so far: " + out() + err());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ended_ = true;
  return {exit_code(status), out(), err()};
}

std::vector<pid_t> launch::processes() const {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // A zombie has an empty environment, and so counts as gone.
    const std::string variables = '\0' + read_file(entry.path().string() + "/environ");
    if (variables.find('\0' + mark_ + '\0') != std::string::npos) found.push_back(std::stoi(name));
  }
  return found;
}

launch_result run_launcher(std::vector<std::string> arguments, std::vector<std::string> environment,
                           const std::string& input) {
  return launch(std::move(arguments), std::move(environment), input).wait();
}

std::vector<std::string> shell(int ranks, const std::string& script) {
  return {"-n", std::to_string(ranks), "sh", "-c", script};
}

}  // namespace troupe::test
