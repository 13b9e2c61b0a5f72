#pragma once

#include <deque>
#include <map>
#include <mutex>

#include "troupe/actors/cluster/peer_table.hpp"
#include "troupe/actors/messaging/window.hpp"
#include "troupe/actors/scheduler/engine.hpp"

namespace troupe {

/// What a sender does when the receiver's window is full.
struct send_wait {
  bool wait = true;                    ///< else overloaded_error at once
  clock::time_point deadline = never;  ///< rpc_timeout then
  std::chrono::milliseconds limit{0};  ///< as the error says it
  bool exceeds_window = false;         ///< goes at once, and later ones wait for the room
};

/// Keeps a slow receiver from being flooded: what has been sent to a node and not been taken up
/// there, by an actor or a function, has room in a window of messages and bytes. A sender without
/// credit waits. Messages for actors and calls count; answers and the runtimes' own messages do
/// not, so they always pass. A message passes when there is any room left, however large it is. The
/// receiver returns credit as it takes messages up, in few messages (Kung, Blackwell, Chapman:
/// "Credit-based flow control for ATM networks", SIGCOMM 1994).
///
/// Handlers of two nodes that flood one another could wait for each other for ever. So a node whose
/// handler waits for long sends a probe after the nodes whose window, or whose answer to a call,
/// its handlers wait for; a probe that comes back has travelled a cycle, and the node that was
/// waited for first, if it has taken nothing up since it was last asked to, makes its window larger
/// (Chandy, Misra, Haas: "Distributed deadlock detection", 1983; Parks: "Bounded scheduling of
/// process networks", 1995, for the remedy). Thread-safe.
class flow_control {
public:
  /// Messages between the halves of two nodes.
  enum class signal : std::uint8_t { credit, probe, relieve };
  struct sender {
    virtual ~sender() = default;
    virtual void send_signal(transport::rank_t to, signal what, std::uint64_t first,
                             std::uint64_t second) noexcept = 0;
  };

  flow_control(peer_table& peers, engine& driver, sender& out, const flow_window& window,
               transport::rank_t self);

  /// A node has joined: its window is open.
  void open(peer& to) noexcept;

  /// Takes room for a message of `bytes`. Hot path: two additions. Throws overloaded_error,
  /// rpc_timeout, peer_lost and not_initialized.
  void take(peer& to, std::size_t bytes, const send_wait& how) {
    if (unlimited_ || to.rank() == self_) return;
    const auto size = static_cast<std::int64_t>(bytes);
    if (!try_take(to, size)) wait_for_room(to, size, how);
  }

  /// The message was not sent after all.
  void put_back(peer& to, std::size_t bytes) noexcept {
    if (!unlimited_ && to.rank() != self_) add(to, 1, static_cast<std::int64_t>(bytes));
  }

  /// A message has been taken up. Hot path: two additions; a signal once in a while.
  void taken_up(peer& from, std::size_t bytes) noexcept {
    if (unlimited_ || from.rank() == self_) return;
    auto& in = from.in;
    const auto size = static_cast<std::int64_t>(bytes);
    const auto messages_new = in.messages.fetch_add(1) + 1 - in.credited_messages.load();
    const auto bytes_new = in.bytes.fetch_add(size) + size - in.credited_bytes.load();
    if (messages_new >= credit_messages_ || bytes_new >= credit_bytes_) return_credit(from);
  }

  /// A signal of another node.
  void deliver(peer& from, signal what, std::uint64_t first, std::uint64_t second) noexcept;

  /// A handler of this node begins, or ceases, to wait for an answer of `from`.
  void awaited(const peer& from, bool begins) noexcept;

  /// A node is fenced, or this one ends: nobody waits for it any more.
  void give_up(peer* whom) noexcept;

private:
  struct waiter {
    peer* at;
    bool handler;  // of this node
    completion woken;
  };

  static bool try_take(peer& to, std::int64_t bytes) noexcept {
    if (to.out.messages.fetch_sub(1) > 0) {
      if (to.out.bytes.fetch_sub(bytes) > 0) return true;
      to.out.bytes.fetch_add(bytes);
    }
    to.out.messages.fetch_add(1);
    return false;
  }

  void add(peer& to, std::int64_t messages, std::int64_t bytes) noexcept;
  bool take_small(peer& to, std::int64_t bytes) noexcept;
  void wait_for_room(peer& to, std::int64_t bytes, const send_wait& how);
  bool enter(waiter& me, std::int64_t bytes);
  void leave(waiter& me) noexcept;
  void wake(const peer* whom) noexcept;
  void return_credit(peer& from) noexcept;
  void send_probe(peer& to) noexcept;
  void take_probe(transport::rank_t initiator, std::uint64_t serial) noexcept;

  peer_table& peers_;
  engine& engine_;
  sender& out_;
  const flow_window window_;
  const transport::rank_t self_;
  const bool unlimited_;
  const std::int64_t credit_messages_;
  const std::int64_t credit_bytes_;
  const std::int64_t reserve_;
  const std::int64_t largest_small_;

  std::mutex mutex_;
  std::deque<waiter*> waiters_;               // the oldest first
  std::map<transport::rank_t, int> awaited_;  // handlers that wait for an answer
  bool closed_ = false;
  std::uint64_t serial_ = 0;                              // of this node's latest probe
  std::map<std::uint64_t, transport::rank_t> probes_;     // under way, and for whom
  std::map<transport::rank_t, std::uint64_t> passed_on_;  // the latest of each other node
};

}  // namespace troupe
