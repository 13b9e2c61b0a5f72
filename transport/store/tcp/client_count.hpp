#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "troupe/transport/store/tcp/tcp_store_server.hpp"

namespace troupe::transport {

/// Who came to a server and who was turned away: counted, and logged where somebody should look.
/// Thread-safe.
class tcp_store_tally {
public:
  tcp_store_server::counts count() const;

  /// Whom the server has refused for their secret, as a clause for an error's text; empty for
  /// nobody.
  std::string refusals() const;

  void accepted();
  void has_clients(std::uint64_t now);

  /// `who` sent what is no request.
  void garbled(const socket_address& who, const std::string& why);

  /// A stranger was dropped because it `why`. Logs the 1st, 2nd, 4th, 8th, ... of its kind. Who
  /// greeted as a client does and then gave no proof has another secret, most likely.
  void refused(const socket_address& who, const char* why, bool wrong_secret);

private:
  mutable std::mutex mutex_;
  tcp_store_server::counts counts_;
};

}  // namespace troupe::transport
