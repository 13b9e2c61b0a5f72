#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/apps/collectives/options.hpp"

namespace collectives {

/// One size.
struct measurement {
  std::uint64_t size = 0;             ///< bytes of the larger of input and output
  std::int64_t count = 0;             ///< elements that a rank gives to another
  std::vector<double> seconds;        ///< of the slowest rank, one for each iteration; ascending
  std::optional<std::int64_t> wrong;  ///< elements, on all ranks; nothing: not compared

  double median() const;
  /// Bytes a second; 0: no time was measured.
  double algorithm_bandwidth() const;
  double bus_bandwidth(operation op, int ranks) const;
};

/// A whole run.
struct run_record {
  options asked;
  int ranks = 0;
  std::vector<measurement> sizes;

  bool is_right() const;
};

/// By what algorithm bandwidth is multiplied to become bus bandwidth, as in nccl-tests'
/// doc/PERFORMANCE.md: the bytes that each of `ranks` ranks must send or receive, over `size`.
double bus_factor(operation op, int ranks);

// The table: what stands above, one line for each size, and what stands below.
std::string table_head(const run_record& run);
std::string table_line(const run_record& run, const measurement& one);
std::string table_end(const run_record& run);

/// Algorithm and bus bandwidth by size.
std::string to_svg(const run_record& run);

std::string to_json(const run_record& run);

}  // namespace collectives
