#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe::transport {

namespace virtual_net {
class fabric;
}

/// A moment of a virtual network's own clock, which starts an hour after the epoch.
using virtual_time = std::chrono::steady_clock::time_point;

/// How a link, one direction between two ranks, treats datagrams. Probabilities are per datagram.
struct link_conditions {
  std::chrono::nanoseconds latency{20'000};
  std::chrono::nanoseconds jitter{10'000};  ///< up to so much more
  /// Bytes a second; 0: unlimited. Envelopes wait for one another and payloads for all, as if large
  /// datagrams went out in small pieces with others between them. Acknowledgements never wait.
  double bandwidth = 0;
  double loss = 0;
  double duplication = 0;
  double reordering = 0;  ///< a reordered one is late by up to `reorder_delay`
  std::chrono::nanoseconds reorder_delay{500'000};
};

struct virtual_network_options {
  std::uint64_t seed = 1;
  link_conditions links;
  /// A peer that acknowledges nothing for so long, while something is under way to it, is lost
  /// (`loss_kind::broken`). Time that bytes wait for the sender's own link does not count.
  std::chrono::milliseconds limit{3000};
  /// How long after a crash the peers hear of it (`loss_kind::ended`), as from a pidfd on one host:
  /// no bad link delays it. nullopt: a crash is silent, as on another host.
  std::optional<std::chrono::nanoseconds> death_notice{100'000};
  /// `transport::progress` moves the clock to the next event when there is nothing else to do.
  bool self_driven = false;
};

enum class datagram_kind : std::uint8_t {
  message,  ///< an envelope
  payload,
  ack,
  goodbye,  ///< the sender has closed the connection
  reset,    ///< the sender knows of no connection; answers everything sent to one that is over
};

enum class datagram_event : std::uint8_t {
  sent,
  resent,     ///< sent again, for want of an acknowledgement
  lost,       ///< by chance
  cut,        ///< by a partition or a cut
  doubled,    ///< will arrive once more
  reordered,  ///< will be late
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

/// One line for people: "3600.000020000 0>1 message 7 112 delivered".
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

/// Joins nodes of one process by links that lose, double and delay datagrams as a seed says, with a
/// clock of its own: what happens is a function of the options and of the sequence of calls alone.
///
/// Over these links each two transports deliver as `transport` promises. Arrival and
/// acknowledgement are the network's doing: a node that makes no progress is slow, and not lost.
///
/// Not thread-safe: one thread at a time uses the network and all its transports. Its callbacks
/// call neither. Any number of nodes, one per rank at a time.
class virtual_network {
public:
  explicit virtual_network(virtual_network_options options);
  ~virtual_network();
  virtual_network(const virtual_network&) = delete;
  virtual_network& operator=(const virtual_network&) = delete;

  virtual_time now() const;

  /// When the earliest thing under way is due; time_point::max() for nothing.
  virtual_time next() const;

  /// Moves the clock, and everything that is due until then, in order of time (of making, at the
  /// same moment). A moment of the past moves nothing.
  void advance(virtual_time to);

  /// Whether `rank` has something to hear by `progress`, or was woken.
  bool ready(rank_t rank) const;

  /// Whether `rank` has a transport that has not crashed.
  bool alive(rank_t rank) const;

  /// Of all links but those that were set by themselves.
  void set_links(const link_conditions& conditions);
  void set_link(rank_t from, rank_t to, const link_conditions& conditions);

  /// Datagrams between different sides vanish, those under way too. Ranks named in no side are on
  /// every side. Takes the place of an earlier partition.
  void partition(const std::vector<std::set<rank_t>>& sides);

  /// Ends the partition and all cuts.
  void heal();

  /// Datagrams of one direction vanish, those under way too.
  void cut(rank_t from, rank_t to);
  void restore(rank_t from, rank_t to);

  /// Makes the transport of `rank` deaf and dumb: it hears nothing more, and what it is told to do
  /// does nothing. Each of its datagrams under way is lost with probability 1/2. The rank may come
  /// back as another transport. False when nobody is there.
  bool crash(rank_t rank);

  datagram_counters count() const;

  /// Hears of everything that happens to datagrams. Unset, it costs nothing.
  std::function<void(const trace_event&)> on_event;

  /// Hears when `ready(rank)` becomes true.
  std::function<void(rank_t)> on_ready;

private:
  friend std::unique_ptr<transport> make_virtual_transport(std::shared_ptr<virtual_network>, rank_t,
                                                           sink&, payload_pool&);
  std::unique_ptr<virtual_net::fabric> fabric_;
};

/// A node on `network`, which it keeps alive. `to` and `pool` must outlive it. What it has sent and
/// is not acknowledged when it is destroyed may be lost; `idle` is true when nothing is. Its
/// `event_fd` exists once asked for. Throws invalid_argument when `rank` is taken.
std::unique_ptr<transport> make_virtual_transport(std::shared_ptr<virtual_network> network,
                                                  rank_t rank, sink& to, payload_pool& pool);

}  // namespace troupe::transport
