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

/// How to come to a store on the network, beside that of a job.
struct tcp_store_options {
  /// Where it is served. Who serves may take port 0, any free one: `tcp_store::where` says which.
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  bool serves = false;  ///< this process keeps the store; the others are its clients

  /// With `wait_for_workers`, who serves returns when so many have come, itself included; 0: at
  /// once.
  std::uint32_t world_size = 0;
  bool wait_for_workers = true;

  /// Who serves shares the server with all of this process that serve the same host and port with
  /// this set, instead of getting an error.
  bool multi_tenant = false;

  /// For coming to the store and for the others to come, and then the store's own.
  std::chrono::milliseconds timeout = default_store_timeout;

  /// Who does not know it gets nothing. Empty: TROUPE_JOB_SECRET or TROUPE_JOB_SECRET_FILE; without
  /// them, at a loopback address, who serves makes one and leaves it where no other user can read
  /// it (see published_secret).
  std::optional<job_secret> secret{};

  /// Where variables are looked up; empty: this process's environment.
  environment variables{};
};

/// A client of the store, and its server if this process serves it. The server ends, and cuts the
/// others off, with the last pointer of those who serve; it is served on a thread of its own. Any
/// thread.
///
/// Throws store_error, within the timeout: if nobody serves there, or who does has another secret
/// (after two seconds); for a host that is unknown or silent; for a port that is in use, or an
/// address that this machine does not have; without a secret at an address that others can reach;
/// when workers are missing, with their number. Throws invalid_argument for a timeout that is not
/// more than 0, and for port 0 without `serves`.
std::shared_ptr<tcp_store> open_tcp_store(const tcp_store_options& options);

}  // namespace troupe::transport
