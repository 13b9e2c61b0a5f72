#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/apps/trace/dump.hpp"

namespace troupe::trace {

using ranks = std::vector<std::uint32_t>;

/// Where one rank is.
struct position {
  std::uint32_t rank = 0;
  std::string name;
  std::uint64_t asked = 0;      ///< number of the last collective that it was asked for
  std::uint64_t completed = 0;  ///< and of the last that it completed
  std::string at;  ///< "42 all_reduce(Float, 10 elements, sum), begun"; empty: all have ended
  std::string failure;
};

/// What some ranks asked for.
struct request {
  std::string what;
  ranks by;
};

/// A sequence number at which ranks were asked for different things.
struct mismatch {
  std::uint64_t sequence = 0;
  std::vector<request> requests;
};

/// A rank that waits for others.
struct waiting {
  std::uint32_t rank = 0;
  std::string in;  ///< the operation
  ranks on;        ///< empty: any rank
};

/// A rank that comes late to operations that all have completed.
struct straggler {
  std::uint32_t rank = 0;
  double late_ms = 0;  ///< after the first rank, on average
  std::uint64_t last = 0;
  std::uint64_t of = 0;  ///< operations; in `last` of them it was the last
};

/// What the dumps of one group's ranks say together.
struct comparison {
  std::string group, description;
  std::uint32_t size = 0;
  std::uint64_t completed_by_all = 0;  ///< of the ranks that have a dump
  std::vector<position> positions;
  std::vector<request> missing;  ///< ranks without a dump, each with its name
  std::vector<mismatch> mismatches;
  std::vector<waiting> waits;
  std::vector<straggler> stragglers;

  /// All ranks have a dump, were asked for the same, and none is behind another.
  bool in_step() const;
};

/// One for each group, by its name. Throws invalid_argument if dumps of one group contradict each
/// other about its members.
std::vector<comparison> compare(const std::vector<dump>& dumps);

}  // namespace troupe::trace
