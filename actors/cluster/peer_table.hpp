#pragma once

#include <atomic>
#include <caf/node_id.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/cluster/device_directory.hpp"
#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/delivery/rank_slots.hpp"
#include "troupe/transport/transport.hpp"

namespace troupe {

/// The credit that is left for sending to a node: how much may be under way to it and not yet taken
/// up by it. Counts down to 0 and below. All members are for any thread.
struct outgoing_window {
  std::atomic<std::int64_t> messages{0};
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> reserve{0};  ///< bytes, of small messages alone, beyond these
  std::atomic<int> waiting{0};           ///< senders that wait for credit
};

/// How much of a node's messages has been taken up here.
struct incoming_window {
  std::atomic<std::int64_t> messages{0};  ///< in all
  std::atomic<std::int64_t> bytes{0};
  std::atomic<std::int64_t> credited_messages{0};  ///< of these, credit has been returned for
  std::atomic<std::int64_t> credited_bytes{0};
  std::atomic<std::int64_t> at_relief{-1};  ///< `messages` when a larger window was last asked for
};

/// One incarnation of a node of the job, this node included. Lives as long as its table.
/// Thread-safe.
class peer {
public:
  /// Live: a member. Fenced: nothing of it is taken in any more, and what waits for it has failed.
  /// Gone: its resources are released and all members were notified.
  enum class standing : std::uint8_t { live, fenced, gone };

  peer(worker_info who, std::uint64_t incarnation_, caf::node_id node_,
       detail::peer_devices devices_ = {})
      : info(std::move(who)),
        incarnation(incarnation_),
        node(std::move(node_)),
        devices(std::move(devices_)) {}

  const worker_info info;
  const std::uint64_t incarnation;
  const caf::node_id node;
  const detail::peer_devices devices;  ///< its devices, and how they are mapped to this node's

  transport::rank_t rank() const noexcept { return info.id; }
  bool live() const noexcept { return state_.load(std::memory_order_acquire) == standing::live; }
  bool gone() const noexcept { return state_.load(std::memory_order_acquire) == standing::gone; }

  /// Why it is not live: errc::peer_lost, its name, the cause. Pre: `!live()`.
  fault loss() const;

  std::atomic<std::uint64_t> sent{0};  ///< messages, to number them
  /// Messages to it, and taken in from it, that count for termination detection.
  std::atomic<std::uint64_t> counted_sent{0};
  std::atomic<std::uint64_t> counted_received{0};
  outgoing_window out;
  incoming_window in;

  /// What was lost with it, for the report of a shutdown. Nothing until it is fenced.
  struct account {
    std::atomic<bool> lost{false};         ///< it has not left of its own accord
    std::atomic<std::size_t> requests{0};  ///< that failed with it
    std::atomic<std::size_t> promised{0};  ///< of these, calls that a shutdown was waiting for
  };
  account losses;

private:
  friend class peer_table;

  std::atomic<standing> state_{standing::live};
  std::string
      cause_;  // written before the release store of `state_`, and read after an acquire load
};

/// The nodes of the job by rank and by name, as they come and go. Looking a rank up takes no lock;
/// entries are never freed before the table.
class peer_table {
public:
  /// The latest incarnation at `rank`, in any state; nullptr: there never was one.
  peer* find(transport::rank_t rank) const noexcept { return latest_.find(rank); }

  /// The same, of that incarnation and no other.
  peer* find(transport::rank_t rank, std::uint64_t incarnation) const noexcept {
    auto* found = find(rank);
    return found && found->incarnation == incarnation ? found : nullptr;
  }

  /// The node that has the name now, or had it last. Throws unknown_worker. No lock for a name that
  /// this thread looked up last, or a rank.
  peer& find(const destination& who) const;

  /// Enters a member, which may have further names. Throws invalid_argument if the rank is too
  /// large.
  peer& add(std::unique_ptr<peer> member, const std::vector<std::string>& aliases = {});

  /// False if it was not live.
  bool fence(peer& member, const std::string& cause);
  /// False if it was gone already.
  bool evict(peer& member);

  /// The live ones, by rank.
  std::shared_ptr<const std::vector<worker_info>> live() const;

  /// An incarnation that was lost, perhaps before this node joined. Makes its entry if need be.
  /// Throws decode_error if there are too many of these.
  peer& departed(transport::rank_t rank, std::uint64_t incarnation);

  /// All that were ever entered.
  std::vector<peer*> all() const;

  std::string name_of(transport::rank_t rank) const;

private:
  transport::rank_slots<peer> latest_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<peer>> all_;
  std::size_t departed_ = 0;  // entries made by `departed`
  std::map<std::string, peer*, std::less<>> by_name_;
  std::atomic<std::uint64_t> names_{0};  // another number with each change of `by_name_`
  std::map<transport::rank_t, peer*> live_;
  mutable std::shared_ptr<const std::vector<worker_info>> list_;
};

}  // namespace troupe
