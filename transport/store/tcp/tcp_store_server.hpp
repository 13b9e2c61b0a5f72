#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/client_count.hpp"
#include "troupe/transport/system/socket.hpp"

namespace troupe::transport {

/// The initial keys and values of a store.
using store_contents = std::vector<std::pair<std::string, store::bytes>>;

/// Serves a store over TCP, on a thread of its own. All methods are thread-safe.
///
/// A client must prove that it has the job's secret (store_handshake) before anything it sends is
/// decoded. Strangers, garbage and half-open connections are dropped within `limits::proof_time`,
/// counted and logged, and block no client.
class tcp_store_server {
public:
  struct limits {
    std::size_t strangers =
        256;  ///< unauthenticated connections; the oldest is dropped for a new one
    std::size_t clients = 65'536;
    std::chrono::milliseconds proof_time{3'000};
    std::chrono::milliseconds stall_time{30'000};     ///< to read a reply or complete a request
    std::size_t stored_bytes = std::size_t{4} << 30;  ///< of all keys and values
    std::size_t entries = max_store_entries;          ///< values, those in queues included
    std::size_t reply_bytes = std::size_t{256}
                              << 20;  ///< replies not yet sent; further requests wait
  };

  using counts = connection_counts;

  /// Serves on `listener`, a socket from `listen_on`; `contents` are set before the first client is
  /// accepted.
  tcp_store_server(unique_fd listener, const job_secret& secret, const limits& l,
                   store_contents contents = {});

  tcp_store_server(const tcp_store_server&) = delete;
  tcp_store_server& operator=(const tcp_store_server&) = delete;

  /// Stops at once and closes all connections.
  ~tcp_store_server();

  std::uint16_t port() const noexcept;
  counts count() const;

  /// Accepts no new clients, waits until all have left or `limit` has passed, and stops.
  void drain(std::chrono::milliseconds limit);

private:
  class impl;
  const forked::home home_;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::transport
