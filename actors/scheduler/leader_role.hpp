#pragma once

#include <atomic>
#include <cstdint>

namespace troupe {

/// Which thread drives a node's network: one at a time, the leader. This is the Leader/Followers
/// pattern (Schmidt, Stal, Rohnert, Buschmann: Pattern-Oriented Software Architecture, volume 2,
/// 2000), with two kinds of leaders: threads of the engine, and threads that wait for something.
///
/// One atomic word holds an epoch, which grows each time the role changes hands, the kind of
/// holder, and what the holder is doing. In any state but `leading` the role may be taken away: the
/// former holder finds out when its `resume` fails. All operations are sequentially consistent: a
/// thread publishes work (in a queue, say) and then looks at the word; the holder writes the word
/// and then looks for work. In one total order, at least one of the two sees the other. A change of
/// hands also publishes what the leader alone uses: the inbox, and the state of `progress`.
class leader_role {
public:
  enum state : std::uint64_t {
    free = 0,      ///< no thread leads
    leading = 1,   ///< the holder touches the network and the inbox
    handler = 2,   ///< the holder runs a handler, which may block
    asleep = 3,    ///< the holder sleeps until the network wakes it
    yielding = 4,  ///< the holder has found nothing and yields its processor for a moment
  };

  enum holder : std::uint64_t { waiter = 0, network_thread = 8 };

  using snapshot = std::uint64_t;

  static state state_of(snapshot s) noexcept { return static_cast<state>(s & 7); }
  static bool by_network_thread(snapshot s) noexcept { return (s & 8) != 0; }

  /// May a waiter take the role without harm? Not from a waiter that sleeps in the network: its own
  /// completion could then come without waking it.
  static bool idle(snapshot s) noexcept {
    return state_of(s) == free ||
           (by_network_thread(s) && (state_of(s) == asleep || state_of(s) == yielding));
  }

  /// Does a network thread lead that looks at the run queue before it does anything else?
  static bool polls_queue(snapshot s) noexcept {
    return by_network_thread(s) && (state_of(s) == leading || state_of(s) == yielding);
  }

  snapshot look() const noexcept { return word_.load(std::memory_order_seq_cst); }

  /// Takes the role over from the state `seen`. Returns the new holder's key; 0 if `seen` is
  /// `leading`, or another thread was quicker.
  snapshot take(snapshot seen, holder who) noexcept {
    if (state_of(seen) == leading) return 0;
    // A new epoch: a compare-and-swap of the former holder cannot mistake this word for its own.
    auto mine = ((seen & ~snapshot{15}) + 16) | who | leading;
    return word_.compare_exchange_strong(seen, mine, std::memory_order_seq_cst) ? mine : 0;
  }

  /// The holder of `key` begins something during which it may lose the role. Pre: it leads.
  void enter(snapshot key, state what) noexcept {
    word_.store(in(key, what), std::memory_order_seq_cst);
  }

  /// Back to leading. False: another thread has taken the role.
  bool resume(snapshot key, state from) noexcept {
    auto expected = in(key, from);
    return word_.compare_exchange_strong(expected, key, std::memory_order_seq_cst);
  }

  void release(snapshot key) noexcept { enter(key, free); }

  /// The word while the holder of `key` is in `what`.
  static snapshot in(snapshot key, state what) noexcept { return (key & ~snapshot{7}) | what; }

private:
  // Epochs start at 1, so that no key is 0.
  std::atomic<snapshot> word_{16};
};

}  // namespace troupe
