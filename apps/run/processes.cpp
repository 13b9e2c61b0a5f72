#include "troupe/apps/run/processes.hpp"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

namespace troupe::launcher {

namespace {

/// Reads one /proc/PID/stat; false when the process is gone.
bool read_process(const char* pid, descendant& out) {
  std::ifstream file("/proc/" + std::string(pid) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const auto name_end = text.rfind(')');  // a name may hold anything, this too
  if (name_end == std::string::npos) return false;
  char state = 0;
  out.pid = std::atoi(pid);
  return std::sscanf(text.c_str() + name_end + 1, " %c %d %d", &state, &out.parent, &out.group) ==
         3;
}

std::vector<descendant> all_processes() {
  std::vector<descendant> all;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return all;
  while (const dirent* entry = readdir(folder)) {
    descendant found{};
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && read_process(entry->d_name, found))
      all.push_back(found);
  }
  closedir(folder);
  return all;
}

}  // namespace

std::vector<descendant> descendants() {
  std::vector<descendant> rest = all_processes();
  std::vector<descendant> below;
  const pid_t self = getpid();
  const auto is_below = [&](const descendant& process) {
    return process.parent == self ||
           std::any_of(below.begin(), below.end(),
                       [&](const descendant& other) { return other.pid == process.parent; });
  };
  for (bool found = true; found;) {
    found = false;
    for (auto process = rest.begin(); process != rest.end();) {
      if (is_below(*process)) {
        below.push_back(*process);
        process = rest.erase(process);
        found = true;
      } else {
        ++process;
      }
    }
  }
  return below;
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

std::size_t kill_descendants() {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (;;) {
    // What a killed process leaves behind falls to us, and is found in the next round.
    const auto left = descendants();
    for (const descendant& process : left) kill(process.pid, SIGKILL);
    pid_t reaped = 0;
    do reaped = waitpid(-1, nullptr, WNOHANG);
    while (reaped > 0);
    if (reaped < 0 && errno == ECHILD) return 0;
    if (std::chrono::steady_clock::now() > deadline) return left.size();
    // Wait for the next death without missing it: SIGCHLD is blocked wherever this is called.
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const timespec moment{0, 20'000'000};
    sigtimedwait(&child, nullptr, &moment);
  }
}

}  // namespace troupe::launcher
