#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// Counts of a server's connections.
struct connection_counts {
  std::uint64_t clients = 0;       ///< connected now, authenticated
  std::uint64_t accepted = 0;      ///< all connections so far
  std::uint64_t wrong_secret = 0;  ///< greeted as a client does, but gave no proof of the secret
  std::uint64_t strangers = 0;     ///< anything else
  std::uint64_t garbled = 0;       ///< clients that sent a malformed request
  std::string last_wrong_secret;   ///< its address
  std::string last_stranger;
};

/// Counts the clients of a server and the connections that it refused, and logs the latter.
/// Thread-safe.
class client_count {
public:
  connection_counts count() const;

  /// The connections that were refused for a wrong secret, as a clause for an error's text; empty
  /// if there were none.
  std::string refusals() const;

  void accepted();
  void has_clients(std::uint64_t now);

  /// `who` sent a malformed request.
  void garbled(const socket_address& who, const std::string& why);

  /// A stranger was dropped because it `why`. Logs the 1st, 2nd, 4th, 8th, ... of its kind. One
  /// that greeted as a client does and then gave no proof most likely has another secret.
  void refused(const socket_address& who, const char* why, bool wrong_secret);

private:
  mutable std::mutex mutex_;
  connection_counts counts_;
};

}  // namespace troupe::transport
