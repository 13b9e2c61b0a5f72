#include "troupe/transport/virtual/trace.hpp"

#include <array>
#include <cstdio>

namespace troupe::transport {

std::string to_string(const trace_event& event) {
  static constexpr std::array kinds{"message", "payload", "ack", "leave_notice", "reset"};
  static constexpr std::array names{"sent",      "resent",    "lost",     "cut",  "doubled",
                                    "reordered", "delivered", "repeated", "stale"};
  const auto ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(event.when.time_since_epoch()).count();
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%lld.%09lld %u>%u %s %llu %zu %s",
                static_cast<long long>(ns / 1'000'000'000),
                static_cast<long long>(ns % 1'000'000'000), event.from, event.to,
                kinds[static_cast<std::size_t>(event.kind)],
                static_cast<unsigned long long>(event.sequence), event.bytes,
                names[static_cast<std::size_t>(event.what)]);
  return line.data();
}

}  // namespace troupe::transport
