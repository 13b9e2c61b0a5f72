#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/tcp/store_channel.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// How one attempt to reach a store ended.
struct attempt {
  store_link link;       ///< connected and authenticated, or without a descriptor
  std::string reason;    ///< why not, for example "Connection refused"
  bool lasting = false;  ///< a server answers, but not that of this job: unlikely to change
};

/// Connects to one of `addresses`; both sides prove that they have the secret.
attempt try_connect(const std::vector<socket_address>& addresses, const job_secret& secret,
                    time_point deadline);

/// The secret for the next attempt. Throws store_error if it is not available yet.
using secret_source = std::function<job_secret()>;

/// A connection, and the secret with which it was made.
struct proven_connection {
  store_link link;
  job_secret secret;
};

/// As `try_connect`, repeated with growing pauses until `deadline`, or until attempts have failed
/// lastingly for two seconds. Fills `addresses` if it is empty. Throws store_error.
proven_connection connect_until(const endpoint& where, std::vector<socket_address>& addresses,
                                const secret_source& secret, time_point deadline);

}  // namespace troupe::transport
