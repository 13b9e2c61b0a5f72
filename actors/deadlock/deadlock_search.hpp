#pragma once

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/deadlock/held_waits.hpp"
#include "troupe/actors/deadlock/wait_graph.hpp"
#include "troupe/actors/future/wait_observer.hpp"

namespace troupe {

class decoder;
class encoder;

namespace deadlock {

/// Finds handlers that wait for one another, over all nodes, and ends that.
///
/// When a handler has waited for an answer for a while, its node asks what that answer depends on:
/// the end of another handler; or a thread, on a node all of whose threads are held by handlers
/// that wait. It asks the nodes that know, along the chain. A chain that ends at something which
/// may still happen is no deadlock. Otherwise the node asks all nodes in it once more, whether all
/// those handlers wait as they did. If they do, there was a moment, between the two rounds, at
/// which all of them waited for each other, and a state like that is stable: then the wait of one
/// handler in each cycle fails, or the calls that get no thread, with errc::deadlock. (Compare
/// Chandy, Misra, Haas: "Distributed deadlock detection", 1983, section 4; here the node that
/// searches collects the graph, and an answer may overtake the question about it, since a question
/// names its request.) Nodes are identified by incarnation: a message of one, or to one, means
/// nothing for the next one at its rank. Nothing is sent or recorded before a handler has waited
/// for 20 ms. Thread-safe.
class search final : public detail::wait_observer {
public:
  /// Sends what the function writes to another node, whose search gets it by `deliver`. Never
  /// throws.
  using sender = std::function<void(transport::rank_t, const std::function<void(encoder&)>&)>;

  search(peer_table& peers, engine& driver, sender out, const incarnation& self);

  held_waits& waits() noexcept { return waits_; }

  // detail::wait_observer
  const incarnation& self() const noexcept override { return self_; }
  bool observe(const std::shared_ptr<detail::future_core>& what, const question& asked,
               function_ref<bool()> wait) override;

  /// Begins a search if one is due. Returns when it wants to be called next. Continuations of waits
  /// that are ended may run here, and in `deliver`.
  clock::time_point run_timer(clock::time_point now) noexcept;

  /// Takes a message of another node's search. Throws decode_error.
  void deliver(const peer& from, decoder& in);

private:
  enum class message_kind : std::uint8_t { ask, tell, confirm, confirmed, fail_wait, refuse_calls };
  enum class stage : std::uint8_t { none, asking, confirming };

  // Functions that run under the lock return what the caller ends after it.
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

  // Taken before that of the waits, and those that sending takes.
  std::mutex mutex_;
  stage stage_ = stage::none;
  std::uint64_t serial_ = 0;  // of the present search
  clock::time_point end_;     // when that is given up
  wait_graph graph_;
  std::map<incarnation, std::vector<question>> asked_;  // not answered yet
  std::multiset<incarnation> unconfirmed_;              // one for each message
};

}  // namespace deadlock

}  // namespace troupe
