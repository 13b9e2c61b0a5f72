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

/// What lets the way to a peer outlive its connection. Peers that are reached over a network have
/// one.
struct link {
  using clock = std::chrono::steady_clock;

  enum class phase : std::uint8_t {
    up,         ///< what is sent goes out at once
    calling,    ///< a new connection is tried; what is sent is only kept
    resending,  ///< it has been answered, and what is kept goes out
  };

  std::vector<std::byte> address;  ///< UCX's, of the peer

  std::mutex mutex;  ///< of `open`, and of keeping a message by what it says
  bool open = true;  ///< senders use the endpoint themselves
  retained kept;
  std::atomic<unsigned> users{0};        ///< threads that use the endpoint
  std::atomic<std::uint64_t> number{0};  ///< of the connection; both ends count alike

  // Of the progressing thread.
  phase now = phase::up;
  std::uint64_t next = 0;         ///< to be sent again
  clock::time_point heard;        ///< last sign of the peer
  clock::time_point silent_from;  ///< since then it is out of reach
  clock::time_point retry_at;
  clock::time_point tried_at;            ///< the present connection
  std::chrono::milliseconds patience{};  ///< with the next try
  bool failed = false;                   ///< the present try
  unsigned refusals = 0;                 ///< tries in a row that were ended at once
  std::string why;                       ///< what broke first
};

}  // namespace troupe::transport::ucx
