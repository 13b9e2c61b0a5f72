#include "troupe/transport/system/descriptors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport {

namespace {

// Descriptors beyond this number are not counted.
constexpr std::size_t most_counted = 65'536;

}  // namespace

descriptor_use descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {0, most_counted};
  descriptor_use out{0, static_cast<std::size_t>(limit.rlim_cur)};
  const auto last = std::min(out.limit, most_counted);
  std::array<pollfd, 1024> some;
  for (std::size_t first = 0; first < last; first += some.size()) {
    const auto count = std::min(some.size(), last - first);
    for (std::size_t i = 0; i < count; ++i) some[i] = {static_cast<int>(first + i), 0, 0};
    if (poll(some.data(), count, 0) < 0) break;
    out.open += static_cast<std::size_t>(
        std::count_if(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(count),
                      [](const pollfd& one) { return (one.revents & POLLNVAL) == 0; }));
  }
  return out;
}

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t descriptors_of_node(std::size_t peers, std::size_t streams) noexcept {
  const auto of_ucx = std::size_t{5};
  // One for messages, one for the process on this host, and the streams of both directions.
  const auto of_tcp = 2 + 2 * streams;
  return 34 + std::max(of_ucx, of_tcp) * peers;
}

void need_descriptors(std::size_t more, const std::string& for_what) {
  const auto now = descriptors();
  if (now.open + more <= now.limit) return;
  throw transport_error(fmt::format(
      "this process may have {} file descriptors, of which {} are open, and needs {} more {}; "
      "raise the limit (ulimit -n {} before the start, hard limit included; LimitNOFILE= of a "
      "service)",
      now.limit, now.open, more, for_what, now.open + more));
}

std::string descriptor_shortage() {
  const auto now = descriptors();
  if (!now.scarce()) return {};
  return fmt::format(
      "; this process has {} of the {} file descriptors that it may have (ulimit -n)", now.open,
      now.limit);
}

std::string with_descriptor_shortage(const std::string& text) {
  // The text may have been completed where the error happened, with the numbers of that moment.
  return text.ends_with("(ulimit -n)") ? text : text + descriptor_shortage();
}

}  // namespace troupe::transport
