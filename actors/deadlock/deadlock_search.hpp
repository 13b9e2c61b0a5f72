#pragma once

#include <optional>

#include "troupe/actors/deadlock/held_waits.hpp"
#include "troupe/actors/deadlock/wait_graph.hpp"
#include "troupe/actors/cluster/peer_table.hpp"

namespace troupe {

class decoder;
class encoder;

namespace deadlock {

/// Finds handlers that wait for one another, over all nodes, and ends that.
///
/// A handler that has waited for a while for an answer has its node look what that waits for: the
/// end of another handler; or a thread, on a node all of whose threads are held by handlers that
/// wait. The node asks those that know, and so on along the chain. Where that comes to something
/// which may still happen, it is no deadlock, as far as anybody can tell. Otherwise the node asks
/// once more whether all those handlers wait as they did. If they do, there was a moment, between
/// the two rounds, at which all of them waited for each other, and that will not pass: then the
/// waits of one handler in each circle fail, or the calls that have no thread, with
/// errc::deadlock. (Compare Chandy, Misra, Haas: "Distributed deadlock detection", 1983, section 4;
/// here the one who looks collects the graph, and answers may overtake what it asks, since what is
/// asked names the request.) Nodes are told apart by incarnation: what one has said, or been asked,
/// means nothing for the next one at its rank. Nothing is said or written down before a handler has
/// waited for 20 ms. Thread-safe.
class search {
public:
  /// Sends what the function writes to another node, for the `deliver` of its search. Never throws.
  using sender = std::function<void(transport::rank_t, const std::function<void(encoder&)>&)>;

  search(peer_table& peers, engine& driver, sender out, const incarnation& self);

  held_waits& waits() noexcept { return waits_; }

  /// Looks, if it is time for it. When it wants to be called next. What continues a wait that is
  /// ended may run here, and in `deliver`, and do anything.
  clock::time_point run_timer(clock::time_point now) noexcept;

  /// A note of another node's. Throws decode_error.
  void deliver(const peer& from, decoder& in);

private:
  enum class message_kind : std::uint8_t { ask, tell, confirm, confirmed, fail_wait, refuse_calls };
  enum class stage : std::uint8_t { none, asking, confirming };

  // Those under the lock return what is to be ended after it.
  using remedies = std::vector<wait_graph::remedy>;
  remedies ask_on();
  remedies look_for_stuck();
  remedies conclude();
  void take_report(const incarnation& from, std::uint64_t serial, const report& what);
  void take_confirmation(const incarnation& from, std::uint64_t serial, bool all_wait);
  void leave(std::unique_lock<std::mutex>& lock, const remedies& how);

  void apply(const remedies& all);
  void fail_wait(std::uint64_t number, const std::string& handler, const std::string& text);
  void refuse_calls(const std::vector<question>& calls, const std::string& text);
  fault deadlock_fault(const std::string& handler, const std::string& text) const;
  bool can_tell(const incarnation& node) const noexcept;
  template <class... Ts>
  void send(const incarnation& to, message_kind what, const Ts&... xs) noexcept;

  peer_table& peers_;
  engine& engine_;
  const sender out_;
  const incarnation self_;
  held_waits waits_;

  std::mutex mutex_;
  stage stage_ = stage::none;
  std::uint64_t serial_ = 0;  // of the search that goes on
  clock::time_point end_;     // when it is given up
  wait_graph graph_;
  std::map<incarnation, std::vector<question>> asked_;  // and not told yet
  std::multiset<incarnation> unconfirmed_;              // one for each note
};

}  // namespace deadlock

}  // namespace troupe
