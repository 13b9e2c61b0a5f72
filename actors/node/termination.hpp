#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "troupe/actors/messaging/outbox.hpp"

namespace troupe {

/// How the nodes of a job agree that all work is done, so that all may leave.
///
/// Each node that wants to leave reports to the leader, round after round: how many messages it has
/// sent and taken in, and whether it is idle. When all are idle, and all that was sent has been
/// taken in, twice in a row with the same numbers, nothing can happen any more (Mattern's
/// four-counter method: "Algorithms for distributed termination detection", 1987, section 4). The
/// leader then notifies all, and leaves when all have left. Lost nodes are left out.
/// Thread-safe.
class termination_detection {
public:
  termination_detection(outbox& out, engine& driver, peer_table& peers);

  /// Messages are those to and from the members of the epoch that count (`counts_at_shutdown`).
  struct report {
    std::uint32_t epoch = 0;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    bool idle = false;
    friend bool operator==(const report&, const report&) = default;
  };

  /// Blocks until the job is quiet. `look` makes the report of this node. Throws rpc_timeout naming
  /// the ranks that are not there or not idle, and peer_lost when the leader is gone.
  void wait(const std::function<report()>& look, clock::time_point deadline);

  /// The leader waits until the others have left. The others report that they leave.
  void leave(clock::time_point deadline);

  /// A message of another node. Throws decode_error.
  void deliver(decoder& in, transport::rank_t from);

  /// The members have changed, and reports go to `leader`.
  void members_changed(transport::rank_t leader);

  /// Have all agreed to end? A node that goes from now on is not lost.
  bool decided() const noexcept { return decided_; }

  /// A node has ended, after all have agreed to.
  void has_left(transport::rank_t rank);

  /// The leader is gone, and nobody takes its place.
  void leader_lost();

private:
  struct round_report {
    std::uint64_t round;  // as the reporter counts
    report what;
  };

  void take_report(transport::rank_t from, std::uint64_t round, report what);
  void judge();
  void take_verdict(std::uint64_t round, bool quiet);
  std::string missing() const;

  bool is_leader() const noexcept { return leader_.load() == out_.self().rank; }
  bool have_all_left() const;

  outbox& out_;
  engine& engine_;
  peer_table& peers_;
  std::atomic<transport::rank_t> leader_{0};
  // Taken before the lock of the peer_table.
  mutable std::mutex mutex_;

  // Used on every node.
  std::shared_ptr<completion> verdict_;
  std::uint64_t round_ = 0;
  bool quiet_ = false;
  std::atomic<bool> decided_{false};
  bool leader_lost_ = false;

  // Used while leading.
  std::map<transport::rank_t, round_report> reports_;  // since the last verdict
  std::optional<std::map<transport::rank_t, report>> previous_;
  std::string last_look_;  // what the last round lacked, for people
  std::set<transport::rank_t> left_;
  std::shared_ptr<completion> all_left_ = std::make_shared<completion>();
};

}  // namespace troupe
