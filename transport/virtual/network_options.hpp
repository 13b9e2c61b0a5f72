#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::transport {

/// A moment of a virtual network's own clock, which starts an hour after the epoch.
using virtual_time = std::chrono::steady_clock::time_point;

/// How a link, one direction between two ranks, treats datagrams. Probabilities are per datagram.
struct link_conditions {
  std::chrono::nanoseconds latency{20'000};
  std::chrono::nanoseconds jitter{10'000};  ///< up to so much more
  /// Bytes per second; 0: unlimited. Envelopes queue behind envelopes and payloads behind
  /// everything, as if large datagrams were sent in small pieces with others between them.
  /// Acknowledgements are never queued.
  double bandwidth = 0;
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  ///< a reordered one is late by up to `reorder_delay`
  std::chrono::nanoseconds reorder_delay{500'000};
};

struct virtual_network_options {
  std::uint64_t seed = 1;
  link_conditions links;
  /// A peer that acknowledges nothing for so long, while something is in transit to it, is lost
  /// (`loss_kind::broken`). The time that bytes wait for the sender's own link does not count.
  std::chrono::milliseconds limit{3000};
  /// The delay after which peers are notified of a crash (`loss_kind::ended`), as by a pidfd on one
  /// host: link conditions do not affect it. nullopt: a crash is silent, as on another host.
  std::optional<std::chrono::nanoseconds> death_notice{100'000};
  /// `transport::progress` moves the clock to the next event when there is nothing else to do.
  bool self_driven = false;
};

}  // namespace troupe::transport
