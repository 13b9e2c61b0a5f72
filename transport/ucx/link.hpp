#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/transport/delivery/retransmit_queue.hpp"

namespace troupe::transport::ucx {

/// The part of a peer that outlives its connections. Peers that are reached over a network have
/// one.
struct link {
  using clock = std::chrono::steady_clock;

  enum class phase : std::uint8_t {
    up,         ///< messages are sent at once
    calling,    ///< a new connection is being made; messages are only kept
    resending,  ///< it has been answered, and the unacknowledged messages are sent again
  };

  std::vector<std::byte> address;  ///< UCX's, of the peer

  std::mutex mutex;  ///< of `open`, and of adding a message according to it
  bool open = true;  ///< senders use the endpoint themselves
  retransmit_queue unacknowledged;
  std::atomic<unsigned> users{0};        ///< threads that use the endpoint now
  std::atomic<std::uint64_t> number{0};  ///< of the connection; both ends count alike

  // Used by the progressing thread only.
  phase now = phase::up;
  std::uint64_t next = 0;           ///< to be sent again
  clock::time_point last_activity;  ///< when the peer last gave a sign of life
  clock::time_point silent_from;    ///< when it went out of reach
  clock::time_point retry_at;
  clock::time_point tried_at;           ///< the present connection
  std::chrono::milliseconds backoff{};  ///< the limit of the next attempt
  bool failed = false;                  ///< the present attempt
  unsigned refusals = 0;                ///< attempts in a row that were refused at once
  std::string why;                      ///< what broke first
};

}  // namespace troupe::transport::ucx
