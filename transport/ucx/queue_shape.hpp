#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "troupe/transport/system/memory_limit.hpp"

namespace troupe::transport::ucx {

/// The shape of a queue in shared memory. A node writes into a queue assuming the shape of its own,
/// so the two nodes of a pair give the queues for each other one shape: the smaller of what each
/// has room for. The common queues of all nodes have `common_shape`.
struct queue_shape {
  unsigned places;  ///< messages that have not been read; a power of two
  unsigned bytes;   ///< of one message; a longer one takes several places

  /// Buffers for messages: one for each place, and some for UCX to hold on to.
  unsigned buffers() const noexcept { return places + places / 4 + 8; }

  /// What a queue takes of shared memory, at most.
  std::size_t memory() const noexcept;

  friend bool operator==(const queue_shape&, const queue_shape&) = default;
};

inline constexpr queue_shape common_shape{64, 2048};

/// From the best to the worst.
inline constexpr std::array<queue_shape, 8> queue_shapes{{{256, 16384},
                                                          {128, 16384},
                                                          {64, 16384},
                                                          {64, 8192},
                                                          {32, 8192},
                                                          {32, 4096},
                                                          {16, 4096},
                                                          {16, 1024}}};

/// The room for queues in the shared memory of this host.
struct queue_room {
  std::string folder;                                ///< where segments are made
  std::uint64_t free = 0;                            ///< bytes
  std::uint64_t whole = 0;                           ///< the file system's size
  std::uint64_t usable = 0;                          ///< by all nodes of this job together
  std::optional<memory_limit> limit = std::nullopt;  ///< of the control groups; counts in `usable`
};

/// Examines UCX_POSIX_DIR, or /dev/shm, and the limits of this process's control groups. A folder
/// that cannot be read has no room.
queue_room look_for_room(const control_groups& groups = {});

/// The shared memory of a node with so many peers on its host, with queues of this shape.
std::size_t memory_of_node(const queue_shape& shape, unsigned host_peers) noexcept;

/// The index of the best shape with which `host_peers` nodes and this one fit into `room.usable`;
/// queue_shapes.size() when there is none.
std::size_t choose_shape(const queue_room& room, unsigned host_peers) noexcept;

/// "a node with 15 others on its host needs 6.0 MiB of shared memory ...": what is needed, what
/// there is, and what to do.
std::string describe_need(const queue_room& room, unsigned host_peers, const queue_shape& shape);

}  // namespace troupe::transport::ucx
