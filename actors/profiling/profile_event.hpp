#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/messages/codec/type_registration.hpp"

namespace troupe {

/// What a profile shall record besides names and times.
struct profile_options {
  bool shapes = false;  ///< sizes of the tensors that operators take
  bool memory = false;  ///< what is allocated meanwhile
};

/// A range of time on one thread of one node: an operator of libtorch, a call, a range of the
/// program's (RECORD_USER_SCOPE). Sendable.
struct profile_event {
  /// As libtorch's profiler has it: "aten::add"; of a call "rpc_sync#f(a -> b)", of what its callee
  /// did "rpc_sync#f(a -> b)#remote_op: aten::add".
  std::string name;
  std::uint32_t node = 0;        ///< where it was, by rank
  std::uint64_t thread = 0;      ///< of the node's process, as libtorch counts them
  std::int64_t start_ns = 0;     ///< since 1970, by the clock of the node whose profile this is
  std::int64_t duration_ns = 0;  ///< 0 or more
  std::int64_t number = -1;      ///< of a call, the same on both sides; -1: none
  bool remote = false;           ///< reported by another node, for a call of this profile
  bool async = false;            ///< begins on `thread`, and ends on any: a call's
  /// Of each input, empty for what is no tensor. Empty unless the profile has shapes.
  std::vector<std::vector<std::int64_t>> shapes{};
  /// Bytes allocated on the thread meanwhile, less those freed. 0 unless the profile has memory.
  std::int64_t host_bytes = 0;
  std::int64_t device_bytes = 0;
};
TROUPE_MESSAGE_EXTERN(profile_event, name, node, thread, start_ns, duration_ns, number, remote,
                      async, shapes, host_bytes, device_bytes)

}  // namespace troupe
