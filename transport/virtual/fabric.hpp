#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "troupe/transport/virtual/agenda.hpp"
#include "troupe/transport/virtual/links.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::transport::virtual_net {

class endpoint;

/// The inside of a virtual network: its clock, what is under way, who is there, and what the links
/// do. It knows nothing of messages and their order; that is the connections' part.
class fabric {
public:
  fabric(virtual_network& owner, virtual_network_options options);

  // For the network's user.
  virtual_time now() const noexcept { return now_; }
  virtual_time next() const noexcept { return agenda_.next(); }
  void advance(virtual_time to);
  bool crash(rank_t rank);
  const endpoint* find(rank_t rank) const;
  const datagram_counters& count() const noexcept { return counters_; }
  links& ways() noexcept { return links_; }

  // For endpoints and connections.
  const virtual_network_options& options() const noexcept { return options_; }

  /// A number that only this network knows, for the check in addresses.
  std::uint64_t salt() const noexcept { return mix(options_.seed ^ 0x74726f757065ull); }

  /// Throws invalid_argument when `rank` is taken.
  node_key enter(endpoint& node, rank_t rank);

  /// The object is destroyed: those who know it are sent goodbyes.
  void leave(const node_key& who);

  bool lives(std::uint64_t id) const { return live_.contains(id); }

  /// Puts a datagram on its link; its last byte leaves at `departs`.
  void transmit(datagram&& d, virtual_time departs, bool again = false);

  void set_alarm(virtual_time when, const alarm& what) { agenda_.put(when, what); }

  /// Tells `to` that `from` closes the connection, again and again until it answers, is gone or the
  /// limit has passed.
  void farewell(const node_key& from, const node_key& to);

  /// Tells `to`, once, that `from` knows of no connection.
  void reset(const node_key& from, const node_key& to);

  /// `at` was given the address of an object that is gone: it hears so soon, unless nothing at all
  /// can be heard of it.
  void report_gone(const node_key& at, const node_key& who);

  void became_ready(rank_t rank) const;

private:
  struct goodbye {
    rank_t from = 0;
    rank_t to = 0;
    virtual_time until;
    std::chrono::nanoseconds pause{1'000'000};
  };

  void happen(std::monostate) {}
  void happen(datagram& d);
  void happen(const alarm& a);
  void happen(const farewell_alarm& f);
  void happen(const notice& n);
  void arrive_later(datagram d, virtual_time departs, const link_conditions& link);
  void trace(const datagram& d, datagram_event what) const;

  virtual_network& owner_;
  const virtual_network_options options_;
  virtual_time now_{std::chrono::hours(1)};
  random_source random_;
  links links_;
  agenda agenda_;
  datagram_counters counters_;
  std::uint64_t next_id_ = 1;
  std::map<rank_t, endpoint*> ranks_;                  // who can be reached
  std::unordered_map<std::uint64_t, endpoint*> live_;  // the same by id; never iterated
  std::set<rank_t> down_;                              // crashed, and not back
  std::map<std::pair<std::uint64_t, std::uint64_t>, goodbye> farewells_;  // by ids, from and to
};

}  // namespace troupe::transport::virtual_net
