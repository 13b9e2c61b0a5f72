#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe {

/// A node in one of its lives: one that comes back at the same rank is another member, of a higher
/// incarnation.
struct member {
  transport::rank_t rank = 0;
  std::uint64_t incarnation = 0;
  std::string name;
  std::vector<std::byte> address;  ///< of its transport; empty in changes that remove it

  friend bool operator==(const member&, const member&) = default;
};

struct membership_change {
  enum class kind : std::uint8_t { joined, left, died };
  kind what = kind::died;
  member who;
  std::string cause;  ///< of a death, for error texts

  bool removes() const noexcept { return what != kind::joined; }
  friend bool operator==(const membership_change&, const membership_change&) = default;
};

/// The changes from one epoch to the next. A rank that joins and is removed in one step was never
/// welcomed.
struct membership_step {
  std::uint32_t epoch = 0;       ///< the one that it leads to
  std::uint32_t term = 0;        ///< of the leader that proposed it first; another may complete it
  transport::rank_t leader = 0;  ///< that leader
  std::vector<membership_change> changes;

  /// The change that removes `rank`, or nullptr.
  const membership_change* removal_of(transport::rank_t rank) const noexcept;
  /// The change by which `rank` joins, or nullptr.
  const membership_change* joining_of(transport::rank_t rank) const noexcept;

  friend bool operator==(const membership_step&, const membership_step&) = default;
};

/// The members of the job in one epoch: the same on every node (M1).
struct membership_view {
  std::uint32_t epoch = 0;
  std::uint32_t term = 0;        ///< of the step that led here
  transport::rank_t leader = 0;  ///< that proposed that step
  std::map<transport::rank_t, member> members;
  std::map<transport::rank_t, std::uint64_t> gone;  ///< last incarnation of ranks without a member

  /// May `step` be applied? False for one that no leader sends.
  bool takes(const membership_step& step) const;

  /// Pre: `takes(step)`.
  void apply(const membership_step& step);

  friend bool operator==(const membership_view&, const membership_view&) = default;
};

/// "rank 3 ('ps1')", for error texts.
std::string describe(const member& who);

/// Of errors about a member that has been removed. `cause`: of its death; it left if that is empty.
std::string text_of_removal(const member& who, const std::string& cause);

}  // namespace troupe
