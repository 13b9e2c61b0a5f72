#pragma once

#include <caf/actor_cast.hpp>
#include <caf/actor_control_block.hpp>
#include <chrono>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "troupe/actors/groups/process_group/group_options.hpp"
#include "troupe/actors/groups/process_group/process_group.hpp"

namespace caf {
class abstract_actor;
}

namespace troupe {

class node;

/// Actors that are to be the ranks of a process group, on any nodes, several on one or not. Made
/// where their handles are, and sent to all of them in a message; each then joins:
///
///     const troupe::actor_group team(node, observers);        // ranks in this order
///     troupe::when_all(observers, train{team}).get();
///     ...
///     const auto group = asked.team.join(self);               // in the handler of `train`
///
/// Each group of actors is another object, since an actor joins one once. Sendable. It keeps the
/// actors alive, as handles do; the process groups do not. Thread-safe.
class actor_group {
public:
  /// No group.
  actor_group() = default;

  /// `members`: by rank. `on`: a node that has these handles. The name, if `options` has none, is
  /// made of the node's and a count; the timeout is 30 minutes if it has none, and the backend
  /// "troupe". Throws invalid_argument for no members, a handle that names no actor or is twice
  /// there, and what the options cannot be.
  template <class Handle>
  requires requires(const Handle& one) { caf::actor_cast<caf::strong_actor_ptr>(one); }
  actor_group(const node& on, const std::vector<Handle>& members,
              const group_options& options = {}) {
    members_.reserve(members.size());
    for (const auto& one : members) members_.push_back(caf::actor_cast<caf::strong_actor_ptr>(one));
    begin(on, options);
  }

  /// The group, as the actor `self` sees it: a member, which calls this in a handler or in its
  /// behaviour function. Does not wait: the members meet in their first operation, which fails by
  /// the group's timeout if one does not come. Throws invalid_argument if `self` is no member or
  /// has joined before.
  process_group join(const caf::abstract_actor* self) const;

  const std::string& name() const noexcept { return name_; }
  int size() const noexcept { return static_cast<int>(members_.size()); }

private:
  void begin(const node& on, const group_options& options);

  friend constexpr auto troupe_fields(const actor_group*) {
    return std::make_tuple(&actor_group::members_, &actor_group::name_, &actor_group::description_,
                           &actor_group::timeout_, &actor_group::backends_,
                           &actor_group::backend_options_, &actor_group::trace_directory_);
  }

  std::vector<caf::strong_actor_ptr> members_;
  std::string name_;
  std::string description_;
  std::chrono::milliseconds timeout_{0};
  std::map<std::string, std::string> backends_;
  std::map<std::string, std::string> backend_options_;
  std::string trace_directory_;
};

}  // namespace troupe
