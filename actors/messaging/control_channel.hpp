#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// The protocol that a control message belongs to: its envelope's target. Each has a handler in the
/// node's message_router. Those of protocols above node/ begin at first_free_channel; such a
/// protocol registers by node/node_protocol.hpp.
enum control_channel : std::uint64_t {
  handles_channel = 0,     ///< handles of actors, watching them, windows: remote_actors
  shutdown_channel = 1,    ///< termination_detection
  membership_channel = 2,  ///< membership_actor
  rref_channel = 3,        ///< remote references: rref_table
  calls_channel = 4,       ///< cancelled calls, profiles of calls: rpc_agent
  deadlock_channel = 5,    ///< deadlock::search
  first_free_channel = 6,  ///< this one and those after it
  groups_channel = 6,      ///< process groups: groups/group_service, which registers
  gatherings_channel = 7,  ///< node::all_gather: node/worker_collectives, which registers
};

/// Channels are numbers below this.
inline constexpr std::size_t max_control_channels = 32;

}  // namespace troupe
