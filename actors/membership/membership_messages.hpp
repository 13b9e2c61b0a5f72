#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "troupe/actors/membership/view.hpp"
#include "troupe/transport/transport.hpp"

// The messages of the membership protocol. docs/membership.md describes the protocol.
namespace troupe::membership_messages {

/// Leader to all: fence the nodes that `step` removes and the suspects, connect to those that join.
struct prepare {
  std::uint32_t term = 0;
  std::uint32_t attempt = 0;
  membership_step step;
  std::vector<membership_change> suspects;  ///< deaths that the next step will hold
  friend bool operator==(const prepare&, const prepare&) = default;
};

/// Member to leader: it has done what that attempt asked for.
struct ready {
  std::uint32_t term = 0;
  std::uint32_t epoch = 0;
  std::uint32_t attempt = 0;
  friend bool operator==(const ready&, const ready&) = default;
};

/// Leader to all: the step prepared last is in force.
struct commit {
  std::uint32_t term = 0;
  std::uint32_t epoch = 0;
  std::uint32_t attempt = 0;
  friend bool operator==(const commit&, const commit&) = default;
};

/// Member to leader: the sender has lost its connection to that node.
struct suspect {
  transport::rank_t rank = 0;
  std::uint64_t incarnation = 0;
  transport::loss_kind kind = transport::loss_kind::broken;
  std::string cause;
  friend bool operator==(const suspect&, const suspect&) = default;
};

/// Member to leader: the sender wants to leave.
struct leave {
  friend bool operator==(const leave&, const leave&) = default;
};

/// Leader to a member that leaves: it has left.
struct leave_notice {
  std::uint32_t epoch = 0;
  friend bool operator==(const leave_notice&, const leave_notice&) = default;
};

/// Leader to a node that it fences.
struct fenced {
  std::uint32_t epoch = 0;  ///< in which it was a member last
  std::string cause;
  friend bool operator==(const fenced&, const fenced&) = default;
};

/// Leader to all: answer with `pong`.
struct ping {
  std::uint32_t term = 0;
  friend bool operator==(const ping&, const ping&) = default;
};

struct pong {
  friend bool operator==(const pong&, const pong&) = default;
};

/// To the lowest rank that the sender can reach: the sender has lost the leader, or cannot follow
/// the receiver in a term this low. The receiver shall lead in a higher one.
struct seek {
  std::uint32_t term = 0;  ///< the highest that the sender has followed
  friend bool operator==(const seek&, const seek&) = default;
};

/// Candidate to all: asks them to follow it.
struct candidate {
  std::uint32_t term = 0;
  transport::rank_t deposed = 0;  ///< the leader that the candidate has lost
  bool ended = false;             ///< the process of `deposed` has ended, for certain
  friend bool operator==(const candidate&, const candidate&) = default;
};

/// To a candidate: the sender follows it, and has lost its connections to `lost`.
struct follow {
  std::uint32_t term = 0;
  std::vector<suspect> lost;
  friend bool operator==(const follow&, const follow&) = default;
};

}  // namespace troupe::membership_messages

namespace troupe {

using membership_message = std::variant<
    membership_messages::prepare, membership_messages::ready, membership_messages::commit,
    membership_messages::suspect, membership_messages::leave, membership_messages::leave_notice,
    membership_messages::fenced, membership_messages::ping, membership_messages::pong,
    membership_messages::seek, membership_messages::candidate, membership_messages::follow>;

}  // namespace troupe
