#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "actors/mail.hpp"

namespace troupe {

/// How the nodes of a job agree that all work is done, so that all may leave.
///
/// Each node that wants to leave reports to rank 0, round after round: how many messages it has
/// sent and taken in, and whether it is idle. When all are idle, and all that was sent has been
/// taken in, twice in a row with the same numbers, nothing can happen any more (Mattern's
/// four-counter method: "Algorithms for distributed termination detection", 1987, section 4). Rank
/// 0 then tells all, and leaves when all have said goodbye. Lost nodes are left out. Thread-safe.
class quiescence {
public:
  quiescence(mail& out, engine& driver);

  struct report {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    bool idle = false;
    friend bool operator==(const report&, const report&) = default;
  };

  /// Blocks until the job is quiet. `look` tells of this node. Throws rpc_timeout naming the ranks
  /// that are not there or not idle, and peer_lost when rank 0 is gone.
  void wait(const std::function<report()>& look, clock::time_point deadline);

  /// Rank 0: waits until the others have left. The others: say so.
  void leave(clock::time_point deadline);

  /// A message of another node's. Throws decode_error.
  void deliver(decoder& in, transport::rank_t from);

  void peer_lost(transport::rank_t peer);

private:
  struct round_state {
    std::map<transport::rank_t, report> reports;
  };

  void take_report(transport::rank_t from, std::uint64_t round, report what);
  void judge(std::uint64_t round);
  void send_verdict(std::uint64_t round, bool quiet);
  void take_verdict(std::uint64_t round, bool quiet);
  std::string missing(std::uint64_t round) const;

  mail& out_;
  engine& engine_;
  mutable std::mutex mutex_;

  // Of every node.
  std::shared_ptr<completion> verdict_;
  std::uint64_t round_ = 0;
  bool quiet_ = false;
  bool leader_lost_ = false;

  // Of rank 0.
  std::map<std::uint64_t, round_state> rounds_;
  std::optional<std::map<transport::rank_t, report>> previous_;
  std::set<transport::rank_t> lost_;
  std::set<transport::rank_t> left_;
  std::shared_ptr<completion> all_left_ = std::make_shared<completion>();
};

}  // namespace troupe
