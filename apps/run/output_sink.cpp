#include "troupe/apps/run/output_sink.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace troupe::launcher {

namespace {

/// A pipe that poll calls writable takes this many bytes without blocking (PIPE_BUF on Linux).
constexpr std::size_t piece = 4096;

}  // namespace

bool output_sink::is_terminal() const { return isatty(fd_) == 1; }

void output_sink::put(std::string_view text) {
  if (!broken_) queue_.append(text);
}

void output_sink::say(std::string_view line) {
  interrupt(nullptr);
  put(fmt::format("troupe-run: {}\n", line));
}

void output_sink::pump() {
  while (pending() > 0) {
    pollfd ready{fd_, POLLOUT, 0};
    if (poll(&ready, 1, 0) <= 0) break;
    const ssize_t count =
        write(fd_, queue_.data() + written_, std::min<std::size_t>(pending(), piece));
    if (count >= 0) {
      written_ += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      broken_ = true;
      written_ = queue_.size();
    }
  }
  // Moving the rest to the front at every call would make a slow reader's queue quadratic.
  if (written_ == queue_.size() || written_ > (1 << 20)) {
    queue_.erase(0, written_);
    written_ = 0;
  }
}

void output_sink::interrupt(const void* self) {
  if (holder_ == nullptr || holder_ == self) return;
  put("\n");
  holder_ = nullptr;
}

}  // namespace troupe::launcher
