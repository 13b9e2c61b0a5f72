#pragma once

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "troupe/transport/transport.hpp"
#include "troupe/transport/virtual/network_options.hpp"
#include "troupe/transport/virtual/trace.hpp"

namespace troupe::transport {

namespace virtual_net {
class fabric;
}

/// Connects nodes of one process by links that lose, duplicate and delay datagrams as a seed
/// determines, with a clock of its own: what happens is a function of the options and of the
/// sequence of calls alone.
///
/// Over these links transports deliver as `transport` promises. Arrival and acknowledgement are the
/// network's work: a node that makes no progress is slow, not lost.
///
/// Not thread-safe: one thread at a time uses the network and all its transports. Its callbacks
/// call neither. Any number of nodes, one per rank at a time.
class virtual_network {
public:
  explicit virtual_network(const virtual_network_options& options);
  ~virtual_network();
  virtual_network(const virtual_network&) = delete;
  virtual_network& operator=(const virtual_network&) = delete;

  virtual_time now() const;

  /// The time of the earliest pending event; time_point::max() if there is none.
  virtual_time next() const;

  /// Moves the clock and runs all events due until then, in order of time (in order of creation, at
  /// the same moment). A moment in the past moves nothing.
  void advance(virtual_time to);

  /// Whether `progress` has something to deliver at `rank`, or it was woken.
  bool ready(rank_t rank) const;

  /// Whether `rank` has a transport that has not crashed.
  bool alive(rank_t rank) const;

  /// Sets all links but those that were set individually.
  void set_links(const link_conditions& conditions);
  void set_link(rank_t from, rank_t to, const link_conditions& conditions);

  /// Datagrams between different sides are dropped, those in transit too. Ranks named in no side
  /// are on every side. Replaces an earlier partition.
  void partition(const std::vector<std::set<rank_t>>& sides);

  /// Ends the partition and all cuts.
  void heal();

  /// Datagrams of one direction are dropped, those in transit too.
  void cut(rank_t from, rank_t to);
  void restore(rank_t from, rank_t to);

  /// Crashes the transport of `rank`: it receives and sends nothing more, and calls have no effect.
  /// Each of its datagrams in transit is lost with probability 1/2. The rank may come back as
  /// another transport. False when there is no such node.
  bool crash(rank_t rank);

  datagram_counters count() const;

  /// Called for every event of a datagram. Unset, it costs nothing.
  std::function<void(const trace_event&)> on_event;

  /// Called when `ready(rank)` becomes true.
  std::function<void(rank_t)> on_ready;

private:
  friend std::unique_ptr<transport> make_virtual_transport(std::shared_ptr<virtual_network>, rank_t,
                                                           sink&, payload_pool&);
  std::unique_ptr<virtual_net::fabric> fabric_;
};

/// A node on `network`, which it keeps alive. `to` and `pool` must outlive it. What it has sent and
/// is not acknowledged when it is destroyed may be lost; `idle` is true when there is nothing. Its
/// `event_fd` is made when first asked for. Throws invalid_argument when `rank` is taken.
std::unique_ptr<transport> make_virtual_transport(std::shared_ptr<virtual_network> network,
                                                  rank_t rank, sink& to, payload_pool& pool);

}  // namespace troupe::transport
