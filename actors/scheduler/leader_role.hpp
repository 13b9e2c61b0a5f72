#pragma once

#include <atomic>
#include <cstdint>

namespace troupe {

/// Who drives a node's network: one thread at a time. The word holds an epoch, which grows each
/// time the role changes hands, whether a network thread or a waiter holds it, and what the holder
/// is doing. From any state but `leading` the role may be taken away; the former holder learns of
/// it when it wants to go on.
class leader_role {
public:
  enum state : std::uint64_t {
    free = 0,      ///< nobody drives
    leading = 1,   ///< the holder touches the network and the inbox
    handler = 2,   ///< the holder runs a handler, which may block
    asleep = 3,    ///< the holder sleeps until the network wakes it
    yielding = 4,  ///< the holder has found nothing and lets others use its processor for a moment
  };

  enum holder : std::uint64_t { waiter = 0, network_thread = 8 };

  using snapshot = std::uint64_t;

  static state state_of(snapshot s) noexcept { return static_cast<state>(s & 7); }
  static bool by_network_thread(snapshot s) noexcept { return (s & 8) != 0; }

  /// May a waiter take the role without harm? Not from a waiter that sleeps in the network: its own
  /// completion might then come without waking it.
  static bool idle(snapshot s) noexcept {
    return state_of(s) == free ||
           (by_network_thread(s) && (state_of(s) == asleep || state_of(s) == yielding));
  }

  /// Does a network thread lead, which looks at the run queue before it does anything else?
  static bool call_context_scope(snapshot s) noexcept {
    return by_network_thread(s) && (state_of(s) == leading || state_of(s) == yielding);
  }

  snapshot look() const noexcept { return word_.load(std::memory_order_seq_cst); }

  /// Takes the role from what `seen` says, which must not be `leading`. Returns the new holder's
  /// key, or 0 when somebody was quicker.
  snapshot take(snapshot seen, holder who) noexcept {
    if (state_of(seen) == leading) return 0;
    auto mine = ((seen & ~snapshot{15}) + 16) | who | leading;
    return word_.compare_exchange_strong(seen, mine, std::memory_order_seq_cst) ? mine : 0;
  }

  /// The holder of `key` says that it does something during which it may lose the role.
  void enter(snapshot key, state what) noexcept {
    word_.store(in(key, what), std::memory_order_seq_cst);
  }

  /// Back to leading. False: the role has gone to somebody else.
  bool resume(snapshot key, state from) noexcept {
    auto expected = in(key, from);
    return word_.compare_exchange_strong(expected, key, std::memory_order_seq_cst);
  }

  void release(snapshot key) noexcept { enter(key, free); }

  /// How the word looks while the holder of `key` is in `what`.
  static snapshot in(snapshot key, state what) noexcept { return (key & ~snapshot{7}) | what; }

private:
  // Epochs start at 1, so that no key is 0.
  std::atomic<snapshot> word_{16};
};

}  // namespace troupe
