#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::bench {

/// A block of memory for a tensor was taken or freed.
struct memory_event {
  std::uint32_t block = 0;  ///< by the order in which they were taken, from 0
  std::uint64_t bytes = 0;  ///< 0: it was freed
};
using memory_trace = std::vector<memory_event>;

/// Programs whose memory is looked at, by name; one thread each, which does the same in each run:
///
/// - `transformer`: 30 steps of Adam of 4 layers, 256 wide, on batches of 4 sequences of 32 to 512
///   tokens out of 2,000;
/// - `cartpole`: 60 episodes of apps/cartpole, without nodes.
const std::map<std::string, std::function<void()>>& traced_programs();

/// What `program` takes and frees of libtorch's memory for CPU tensors, in a process of its own, so
/// that nothing of it stays in this one. For a process that has no other threads yet. Throws
/// internal_error.
memory_trace trace_of(const std::function<void()>& program);

}  // namespace troupe::bench
