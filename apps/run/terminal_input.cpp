#include "troupe/apps/run/terminal_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>

namespace troupe::launcher {

terminal_input::terminal_input() {
  if (isatty(STDIN_FILENO) != 1) {
    child_end_ = fcntl(STDIN_FILENO, F_GETFD) < 0 ? -1 : STDIN_FILENO;
    return;
  }
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe for rank 0");
  child_end_ = ends[0];
  our_end_ = ends[1];
  fcntl(our_end_, F_SETFL, O_NONBLOCK);
  std::signal(SIGTTIN, SIG_IGN);  // reading while in the background: an error, not a stop
}

terminal_input::~terminal_input() {
  release_child_end();
  stop();
}

void terminal_input::release_child_end() {
  if (child_end_ > STDIN_FILENO) close(child_end_);
  child_end_ = -1;
}

void terminal_input::stop() {
  if (our_end_ >= 0) close(our_end_);
  our_end_ = -1;
}

void terminal_input::add_to(std::vector<pollfd>& waits) const {
  if (our_end_ < 0) return;
  if (typed_.empty()) waits.push_back({STDIN_FILENO, POLLIN, 0});
  // Without events asked for, poll still reports that rank 0 no longer reads.
  waits.push_back({our_end_, static_cast<short>(typed_.empty() ? 0 : POLLOUT), 0});
}

void terminal_input::pump() {
  if (our_end_ < 0) return;
  pollfd reader{our_end_, POLLOUT, 0};
  if (poll(&reader, 1, 0) > 0 && (reader.revents & (POLLERR | POLLHUP)) != 0) return stop();
  pollfd keyboard{STDIN_FILENO, POLLIN, 0};
  if (typed_.empty() && poll(&keyboard, 1, 0) > 0) {
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count <= 0) return stop();
    typed_.assign(bytes, static_cast<std::size_t>(count));
  }
  if (typed_.empty()) return;
  const ssize_t count = write(our_end_, typed_.data(), typed_.size());
  if (count > 0) typed_.erase(0, static_cast<std::size_t>(count));
  if (count < 0 && errno != EAGAIN && errno != EINTR) stop();
}

}  // namespace troupe::launcher
