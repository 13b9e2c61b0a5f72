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
#include "troupe/transport/store/tcp/tcp_store_socket.hpp"

namespace troupe::transport {

/// Keys and values that a store begins with.
using store_contents = std::vector<std::pair<std::string, store::bytes>>;

/// Serves a store over TCP, on a thread of its own. All methods are thread-safe.
///
/// Whoever connects must prove to know the job's secret (store_handshake) before anything they send
/// is decoded. Strangers, garbage and connections that stay half open are dropped within
/// `limits::proof_time`, counted and logged, and hold up nobody else.
class tcp_store_server {
public:
  struct limits {
    std::size_t strangers = 256;  ///< connections without proof; the oldest makes room
    std::size_t clients = 65'536;
    std::chrono::milliseconds proof_time{3'000};
    std::chrono::milliseconds stall_time{30'000};      ///< to take a reply or end a request
    std::size_t stored_bytes = std::size_t{4} << 30;   ///< of all keys and values
    std::size_t entries = max_store_entries;           ///< values, those in queues included
    std::size_t reply_bytes = std::size_t{256} << 20;  ///< replies not yet taken; more wait
  };

  struct counts {
    std::uint64_t clients = 0;       ///< connected now, with proof
    std::uint64_t accepted = 0;      ///< all connections so far
    std::uint64_t wrong_secret = 0;  ///< greeted as a client does, but gave no proof of the secret
    std::uint64_t strangers = 0;     ///< anything else
    std::uint64_t garbled = 0;       ///< clients that sent what is no request
    std::string last_wrong_secret;   ///< whence
    std::string last_stranger;
  };

  /// Serves on `listener`, a socket from `listen_on`; `contents` are there before anybody is let
  /// in.
  tcp_store_server(unique_fd listener, const job_secret& secret, const limits& l,
                   store_contents contents = {});

  tcp_store_server(const tcp_store_server&) = delete;
  tcp_store_server& operator=(const tcp_store_server&) = delete;

  /// Stops at once: connections are cut.
  ~tcp_store_server();

  std::uint16_t port() const noexcept;
  counts count() const;

  /// Lets nobody new in, waits until all clients have gone or `limit` has passed, and stops.
  void drain(std::chrono::milliseconds limit);

private:
  class impl;
  const forked::home home_;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::transport
