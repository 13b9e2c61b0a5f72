#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "troupe/transport/transport.hpp"
#include "troupe/transport/virtual/network_options.hpp"

namespace troupe::transport {

enum class datagram_kind : std::uint8_t {
  message,  ///< an envelope
  payload,
  ack,
  leave_notice,  ///< the sender has closed the connection
  reset,         ///< the sender knows of no connection; answers everything sent to one that is over
};

enum class datagram_event : std::uint8_t {
  sent,
  resent,     ///< sent again, for want of an acknowledgement
  lost,       ///< by chance
  cut,        ///< by a partition or a cut
  doubled,    ///< will arrive twice
  reordered,  ///< will arrive late
  delivered,
  repeated,  ///< arrived, and the receiver had it
  stale,     ///< arrived for, or from, an object that is gone, or on a connection that is over
};

/// One thing that happened to a datagram.
struct trace_event {
  virtual_time when;
  datagram_event what{};
  rank_t from = 0;
  rank_t to = 0;
  datagram_kind kind{};
  std::uint64_t sequence = 0;  ///< of messages and payloads in their connection; 0 for others
  std::size_t bytes = 0;
};

/// One line of text: "3600.000020000 0>1 message 7 112 delivered".
std::string to_string(const trace_event& event);

/// How often each `datagram_event` happened. `sent` includes what was sent again.
struct datagram_counters {
  std::uint64_t sent = 0;
  std::uint64_t resent = 0;
  std::uint64_t lost = 0;
  std::uint64_t cut = 0;
  std::uint64_t doubled = 0;
  std::uint64_t reordered = 0;
  std::uint64_t delivered = 0;
  std::uint64_t repeated = 0;
  std::uint64_t stale = 0;

  friend bool operator==(const datagram_counters&, const datagram_counters&) = default;
};

}  // namespace troupe::transport
