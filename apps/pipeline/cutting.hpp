#pragma once

#include <cstddef>
#include <vector>

namespace pipeline {

/// A stage's layers: `first` to `end - 1`.
struct stage_range {
  std::size_t first = 0;
  std::size_t end = 0;

  friend bool operator==(const stage_range&, const stage_range&) = default;
};

/// Cuts layers of these costs into consecutive stages, none empty, so that the most expensive stage
/// is as cheap as can be: a pipeline is as fast as its slowest stage. Throws
/// troupe::invalid_argument for no stage, and for more stages than layers.
std::vector<stage_range> cut(const std::vector<double>& costs, std::size_t stages);

}  // namespace pipeline
