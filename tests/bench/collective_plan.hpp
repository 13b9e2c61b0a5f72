#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/timing.hpp"

// How collectives are timed, in every program alike (peers/collective_plan.py, peers/mpi/
// collectives.c): all ranks write their input, meet in a barrier, twice, since who has slept in the
// first one comes out of it late, and time the operation. An operation's time is that of its
// slowest rank; a row has the median over all operations.
namespace troupe::bench {

/// Bytes of one rank's tensor, or, where ranks have parts for each other, of all its parts.
inline constexpr std::size_t collective_sizes[] = {4,       1 << 10, 64 << 10,
                                                   1 << 20, 4 << 20, 64 << 20};

/// How often an operation is done and timed.
struct collective_effort {
  int warm_up;
  int times;

  /// To find out how long it takes.
  static constexpr collective_effort probe() { return {1, 2}; }
  /// Where it takes so long.
  static collective_effort of(double seconds) {
    const auto times = std::clamp(0.03 / std::max(seconds, 1e-9), 5.0, 3000.0);
    return {seconds > 1e-3 ? 0 : 3, static_cast<int>(times)};
  }
};

/// Elements of a tensor of so many bytes, and of each rank's part: at least one.
struct collective_shape {
  collective_shape(std::size_t bytes, int ranks)
      : elements(static_cast<std::int64_t>(bytes / sizeof(float))),
        part(std::max<std::int64_t>(1, elements / ranks)) {}

  std::int64_t elements;
  std::int64_t part;
};

/// The name of what a row times, which several rows may share: without what says how and where.
inline std::string timed_operation(std::string row) {
  if (row.starts_with("tcp_")) row.erase(0, 4);
  for (const std::string ending :
       {"_1g", "_10g", "_two_a_host", "_staged", "_oversubscribed", "_lent", "_shared"})
    if (row.ends_with(ending)) row.resize(row.size() - ending.size());
  return row;
}

/// Does that row have these bytes? Work handles are for small ones, the next write matters for
/// large ones, and more ranks than cores are slow.
inline bool is_timed(const std::string& row, std::size_t bytes) {
  if (row == "all_reduce_async") return bytes == 4;
  for (const auto* large : {"_rewrite", "_staged", "_lent", "_shared"})
    if (row.ends_with(large)) return bytes >= 64 << 10;
  if (row.ends_with("_oversubscribed")) return bytes == 4 || bytes == 64 << 10 || bytes == 4 << 20;
  return true;
}

}  // namespace troupe::bench
