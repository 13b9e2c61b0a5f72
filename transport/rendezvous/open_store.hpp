#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/store/tcp/tcp_store.hpp"

namespace troupe::transport {

/// How to open a store on the network, beside that of a job.
struct tcp_store_options {
  /// Where it is served. The server may take port 0, any free one: `tcp_store::where` says which.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  bool serves = false;  ///< this process keeps the store; the others are its clients

  /// With `wait_for_workers`, the server returns when so many workers have come, itself included;
  /// 0: at once.
  std::uint32_t world_size = 0;
  bool wait_for_workers = true;

  /// The server is shared by all users of this process that serve the same host and port with this
  /// set; otherwise the second gets an error.
  bool multi_tenant = false;

  /// For opening the store and for the others to come; afterwards the timeout of the store.
  std::chrono::milliseconds timeout = default_store_timeout;

  /// A process without it gets no access. Empty: TROUPE_JOB_SECRET or TROUPE_JOB_SECRET_FILE;
  /// without them, at a loopback address, the server makes one and leaves it where no other user
  /// can read it (see published_secret).
  std::optional<job_secret> secret{};

  /// Where variables are looked up; empty: this process's environment.
  environment variables{};
};

/// A client of the store, and its server if this process serves it. The server ends, and
/// disconnects the others, with the last pointer of those that serve; it has a thread of its own.
/// Any thread.
///
/// Throws store_error, within the timeout: if there is no server, or the server has another secret
/// (after two seconds); for a host that is unknown or silent; for a port that is in use, or an
/// address that this machine does not have; without a secret at an address that others can reach;
/// when workers are missing, with their number. Throws invalid_argument for a timeout that is not
/// more than 0, and for port 0 without `serves`.
std::shared_ptr<tcp_store> open_tcp_store(const tcp_store_options& options);

}  // namespace troupe::transport
