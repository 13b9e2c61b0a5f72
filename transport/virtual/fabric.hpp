#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "troupe/messages/base/random.hpp"
#include "troupe/transport/virtual/agenda.hpp"
#include "troupe/transport/virtual/attached_node.hpp"
#include "troupe/transport/virtual/links.hpp"

namespace troupe::transport::virtual_net {

/// The core of a virtual network: its clock, the pending events, the attached nodes and the
/// conditions of the links. Messages and their order are the business of the connections.
class fabric {
public:
  /// `on_event` and `on_ready` are those of the network, which its user may set at any time.
  fabric(const virtual_network_options& options,
         const std::function<void(const trace_event&)>& on_event,
         const std::function<void(rank_t)>& on_ready);

  // For the network's user.
  virtual_time now() const noexcept { return now_; }
  virtual_time next() const noexcept { return agenda_.next(); }
  void advance(virtual_time to);
  bool crash(rank_t rank);
  const attached_node* find(rank_t rank) const;
  const datagram_counters& count() const noexcept { return counters_; }
  links& ways() noexcept { return links_; }

  // For endpoints and connections.
  const virtual_network_options& options() const noexcept { return options_; }

  /// A number of this network alone, for the check in addresses.
  std::uint64_t salt() const noexcept { return splitmix64(options_.seed ^ 0x74726f757065ull); }

  /// Attaches a node. Throws invalid_argument when `rank` is taken.
  node_key enter(attached_node& node, rank_t rank);

  /// The object is destroyed: nodes that know it are sent leave notices.
  void leave(const node_key& who);

  bool lives(std::uint64_t id) const { return live_.contains(id); }

  /// Puts a datagram on its link; its last byte leaves at `departs`.
  void transmit(datagram&& d, virtual_time departs, bool again = false);

  void set_alarm(virtual_time when, const alarm& what) { agenda_.put(when, what); }

  /// Sends leave notices from `from` to `to` until it answers, has ended or the limit has passed.
  void begin_close_handshake(const node_key& from, const node_key& to);

  /// Tells `to`, once, that `from` has no connection to it.
  void reset(const node_key& from, const node_key& to);

  /// `at` was given the address of an object that has ended: it is notified soon, unless ends are
  /// silent on this network.
  void report_gone(const node_key& at, const node_key& who);

  void became_ready(rank_t rank) const;

private:
  struct pending_close {
    rank_t from = 0;
    rank_t to = 0;
    virtual_time until;
    std::chrono::nanoseconds pause{1'000'000};
  };

  void happen(std::monostate) {}
  void happen(datagram& d);
  void happen(const alarm& a);
  void happen(const close_alarm& f);
  void happen(const notice& n);
  void arrive_later(datagram d, virtual_time departs, const link_conditions& link);
  void trace(const datagram& d, datagram_event what) const;

  const virtual_network_options options_;
  const std::function<void(const trace_event&)>& on_event_;
  const std::function<void(rank_t)>& on_ready_;
  virtual_time now_{std::chrono::hours(1)};
  random_source random_;
  links links_;
  agenda agenda_;
  datagram_counters counters_;
  std::uint64_t next_id_ = 1;
  std::map<rank_t, attached_node*> ranks_;                  // the nodes that can be reached
  std::unordered_map<std::uint64_t, attached_node*> live_;  // the same by id; never iterated
  std::set<rank_t> down_;                                   // crashed, and not back
  std::map<std::pair<std::uint64_t, std::uint64_t>, pending_close>
      close_handshakes_;  // by ids, from and to
};

}  // namespace troupe::transport::virtual_net
