#include "troupe/apps/run/job_output.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace troupe::launcher {

namespace {

/// Beyond this, output stays in the ranks' pipes until the reader of ours catches up.
constexpr std::size_t max_pending = 1 << 20;

bool same_file(int a, int b) {
  struct stat x {
  }, y{};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool use_colour(colour_mode mode, const output_sink& to) {
  if (mode != colour_mode::automatic) return mode == colour_mode::always;
  const char* refused = std::getenv("NO_COLOR");
  return to.is_terminal() && (refused == nullptr || *refused == '\0');
}

std::string rank_prefix(int rank, bool coloured) {
  if (!coloured) return fmt::format("[{}] ", rank);
  return fmt::format("\033[3{}m[{}]\033[0m ", 1 + rank % 6, rank);
}

}  // namespace

job_output::job_output(const run_options& options)
    : prefix_(options.prefix),
      colour_(options.colour),
      out_(STDOUT_FILENO),
      err_(STDERR_FILENO),
      one_(same_file(STDOUT_FILENO, STDERR_FILENO)) {}

job_output::~job_output() {
  for (source& each : sources_)
    if (each.fd >= 0) close(each.fd);
}

void job_output::add(int rank, int output, int errors_fd) {
  add_source(rank, output, out_);
  add_source(rank, errors_fd, errors());
}

void job_output::add_source(int rank, int fd, output_sink& to) {
  std::string prefix = prefix_ ? rank_prefix(rank, use_colour(colour_, to)) : std::string();
  sources_.push_back({rank, fd, &to, std::make_unique<line_stream>(to, std::move(prefix))});
}

void job_output::add_to(std::vector<pollfd>& waits) const {
  for (const output_sink* each : {&out_, &err_})
    if (each->pending() > 0) waits.push_back({each->fd(), POLLOUT, 0});
  for (const source& each : sources_)
    if (each.fd >= 0 && each.to->pending() < max_pending) waits.push_back({each.fd, POLLIN, 0});
}

void job_output::pump() {
  for (source& each : sources_) {
    // A rank that writes to nobody learns it as it would without us, by SIGPIPE.
    if (each.to->broken()) close_source(each);
    if (each.to->pending() < max_pending) read_once(each);
  }
  out_.pump();
  err_.pump();
}

void job_output::drain(int rank) {
  for (source& each : sources_)
    while (each.rank == rank && read_once(each)) continue;
}

void job_output::finish() {
  for (source& each : sources_) {
    while (read_once(each)) continue;
    close_source(each);
  }
}

void job_output::say(std::string_view line) {
  errors().say(line);
  errors().pump();
}

bool job_output::read_once(source& from) {
  if (from.fd < 0) return false;
  std::array<char, 65536> bytes;
  const ssize_t count = read(from.fd, bytes.data(), bytes.size());
  if (count > 0) {
    from.lines->feed({bytes.data(), static_cast<std::size_t>(count)});
    return true;
  }
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  close_source(from);
  return false;
}

void job_output::close_source(source& from) {
  if (from.fd < 0) return;
  close(from.fd);
  from.fd = -1;
  from.lines->finish();
}

}  // namespace troupe::launcher
