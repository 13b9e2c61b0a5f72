#include "troupe/transport/store/tcp/client_count.hpp"

#include <fmt/format.h>

#include <bit>

#include "troupe/messages/base/log.hpp"

namespace troupe::transport {

connection_counts client_count::count() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

std::string client_count::refusals() const {
  std::lock_guard lock(mutex_);
  const auto n = counts_.wrong_secret;
  if (n == 0) return {};
  return fmt::format(
      "{} connection{} did not prove knowledge of the job's secret, the last from {}", n,
      n == 1 ? "" : "s", counts_.last_wrong_secret);
}

void client_count::accepted() {
  std::lock_guard lock(mutex_);
  ++counts_.accepted;
}

void client_count::has_clients(std::uint64_t now) {
  std::lock_guard lock(mutex_);
  counts_.clients = now;
}

void client_count::garbled(const socket_address& who, const std::string& why) {
  log().warn("the store dropped {}, which sent a malformed request: {}", to_string(who), why);
  std::lock_guard lock(mutex_);
  ++counts_.garbled;
}

void client_count::refused(const socket_address& who, const char* why, bool wrong_secret) {
  const auto name = to_string(who);
  std::uint64_t so_far = 0;
  {
    std::lock_guard lock(mutex_);
    so_far = ++(wrong_secret ? counts_.wrong_secret : counts_.strangers);
    (wrong_secret ? counts_.last_wrong_secret : counts_.last_stranger) = name;
  }
  if (std::has_single_bit(so_far))
    log().warn("the store refused {}: it {} ({} so far)", name, why, so_far);
}

}  // namespace troupe::transport
