#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/transport/transport.hpp"

namespace troupe {

/// Writes that had to copy a tensor first.
struct forced_copies_by {
  /// The operator that was called, with its overload, as the namespace at::_ops calls it
  /// ("add__Tensor"); "a pointer" where the program took one that may be written through.
  std::string writer;
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};

/// Where the CPU tensors of this process lie, if its nodes lend them (docs/lent_tensors.md): one
/// arena. Bytes, unless said otherwise.
struct tensor_memory {
  std::size_t limit = 0;  ///< the most that it holds; 0: there is none
  std::size_t held = 0;   ///< taken from the system
  std::size_t in_use = 0;
  std::size_t peak_in_use = 0;  ///< the most of that, or more
  /// Taken from the system besides, private and without a limit, for tensors of less than 16 KiB.
  std::size_t small_held = 0;
  /// Tensors, since the start, for which there was no room below the limit: others cannot be lent
  /// their memory.
  std::uint64_t without_room = 0;
  /// Writes, since the start, that had to copy a tensor first: it was lent, or somebody else's.
  std::uint64_t forced_copies = 0;
  std::uint64_t forced_copy_bytes = 0;
  /// By whom, most bytes first. Of more than 256 copies a sample, once in 4 MiB of a thread.
  std::vector<forced_copies_by> forced_by{};
};

/// A node's numbers, for people and tests.
struct debug_info {
  unsigned threads = 0;
  unsigned idle_threads = 0;
  std::size_t calls_in_flight = 0;  ///< requests of this node that wait for an answer
  std::size_t calls_served = 0;     ///< calls to this node that it will answer later
  std::size_t actors_held = 0;      ///< actors here that other nodes have handles of
  std::size_t remote_handles = 0;   ///< handles here of other nodes' actors
  /// Values here that rrefs refer to; those of make_rref while another node has one, or once a call
  /// has used them.
  std::size_t owner_rrefs = 0;
  std::size_t user_rrefs = 0;         ///< rrefs here, whoever owns the value; copies count as one
  std::size_t rref_forks = 0;         ///< rrefs on their way to other nodes, not yet confirmed
  std::size_t autograd_contexts = 0;  ///< distributed ones, in which this node takes part
  std::size_t backward_passes = 0;    ///< in those, under way
  tensor_memory tensors;              ///< of the whole process
  transport::counters traffic;
};

}  // namespace troupe
