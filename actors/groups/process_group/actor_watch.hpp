#pragma once

#include <caf/actor_control_block.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/messages/base/error.hpp"

namespace troupe {

class peer;

namespace groups {

class group_core;

/// The ends of actors that are members of groups, as one node sees them: a group fails when one of
/// its actors has ended. Each actor is watched once, whatever the number of its groups, without
/// keeping it alive. Thread-safe.
class actor_watch : public std::enable_shared_from_this<actor_watch> {
  struct entry;

public:
  /// Keeps what is known of an actor that has ended, for `add`.
  using watched = std::shared_ptr<const entry>;

  /// An actor, which is on `home`, is watched from now on.
  watched watch(const peer& home, const caf::strong_actor_ptr& who);

  /// `group` fails when that actor, which is watched, ends; at once if it has ended. The error is
  /// actor_down, or peer_lost if its node was lost, and names the actor, its rank and the reason.
  /// Pre: what `watch` has returned is there, or another group of that actor.
  void add(const peer& home, caf::actor_id who, const std::shared_ptr<group_core>& group);

  /// Of how many actors something is kept: those that live, those that have ended in groups that
  /// are there, and as many again.
  std::size_t size();

private:
  using key = std::pair<const peer*, caf::actor_id>;

  struct entry {
    std::vector<std::weak_ptr<group_core>> groups;
    std::optional<fault> ended;
  };

  void end(const key& who, const caf::error& reason) noexcept;
  void trim();

  std::mutex mutex_;
  // Those that have ended stay while a group has them, from which others may be made.
  std::map<key, std::shared_ptr<entry>> all_;
  std::size_t trimmed_at_ = fewest_trimmed;
  static constexpr std::size_t fewest_trimmed = 64;
};

}  // namespace groups

}  // namespace troupe
