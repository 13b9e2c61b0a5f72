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
public:
  /// An actor, which is on `home`, is watched from now on.
  void watch(const peer& home, const caf::strong_actor_ptr& who);

  /// `group` fails when that actor, which is watched, ends; at once if it has ended. The error is
  /// actor_down, or peer_lost if its node was lost, and names the actor, its rank and the reason.
  void add(const peer& home, caf::actor_id who, const std::shared_ptr<group_core>& group);

private:
  using key = std::pair<const peer*, caf::actor_id>;

  struct entry {
    std::vector<std::weak_ptr<group_core>> groups;
    std::optional<fault> ended;
  };

  void end(const key& who, const caf::error& reason) noexcept;

  std::mutex mutex_;
  std::map<key, entry> all_;  // those that have ended stay, for groups that are made of them later
};

}  // namespace groups

}  // namespace troupe
