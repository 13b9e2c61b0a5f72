#pragma once

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/remote/actor_interface.hpp"

namespace troupe {

/// What happened to a member of the job.
enum class member_change : std::uint8_t { joined, left, died };

/// A change of the job's members. Every node gets the same changes in the same order.
struct member_event {
  std::uint32_t epoch = 0;  ///< the one that began with it
  member_change what = member_change::died;
  worker_info who;
  std::uint64_t incarnation = 0;
  std::string cause;  ///< of a death, for people
};
TROUPE_MESSAGE_EXTERN(member_event, epoch, what, who, incarnation, cause)

/// An actor that is notified of each member_event.
using member_watcher = actor<accepts<member_event>>;

}  // namespace troupe
