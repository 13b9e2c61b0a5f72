#pragma once

#include <caf/actor_control_block.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

namespace troupe {

class peer;

/// The actors of this node that others know, by CAF's actor id. Thread-safe.
///
/// An actor is held alive while another node holds handles of it: each handle sent is a grant, and
/// the receiver gives the grants that it has got back when its last copy is gone. This is reference
/// listing (Birrell, Nelson, Owicki, Wobber: "Network objects", SOSP 1993): the owner knows the
/// holders, so that it can take back what a lost one held. Each holder has a count here, so that a
/// grant on its way outlives a release that crosses it. A sender of a mere message is known weakly.
/// Entries vanish when the actor ends.
class export_table : public std::enable_shared_from_this<export_table> {
public:
  /// Makes `actor` findable without holding it.
  void know(const caf::strong_actor_ptr& actor);

  /// Holds `actor` for one more handle at `holder`.
  void grant(const caf::strong_actor_ptr& actor, const peer& holder);

  /// Gives `count` grants of `holder` back.
  void release(caf::actor_id id, const peer& holder, std::uint32_t count);

  /// Gives back all that `holder` has: it is gone.
  void release_all(const peer& holder);

  /// nullptr: the actor has ended or was never known.
  caf::strong_actor_ptr find(caf::actor_id id) const;

  /// Drops everything.
  void clear();

  /// Actors that are held for others.
  std::size_t held() const;

private:
  struct entry {
    caf::weak_actor_ptr actor;
    caf::strong_actor_ptr held;
    std::map<const peer*, std::uint32_t> grants;
  };

  void forget(caf::actor_id id);

  mutable std::mutex mutex_;
  std::unordered_map<caf::actor_id, entry> entries_;
};

}  // namespace troupe
