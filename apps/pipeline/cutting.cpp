#include "troupe/apps/pipeline/cutting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "troupe/messages/base/error.hpp"

namespace pipeline {

std::vector<stage_range> cut(const std::vector<double>& costs, std::size_t stages) {
  const auto layers = costs.size();
  if (stages < 1 || stages > layers)
    throw troupe::invalid_argument(
        fmt::format("a network of {} layers cannot be cut into {} stages: start fewer ranks, or "
                    "have more --blocks",
                    layers, stages));
  // worst[s][n]: the cost of the most expensive stage when the first n layers are s + 1 stages;
  // begin[s][n]: where the last of these begins.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector worst(stages, std::vector(layers + 1, never));
  std::vector begin(stages, std::vector<std::size_t>(layers + 1, 0));
  for (std::size_t n = 1; n <= layers; ++n) {
    double last = 0;  // the cost of a last stage that begins at `first`
    for (std::size_t first = n; first-- > 0;) {
      last += costs[first];
      if (first == 0) worst[0][n] = last;
      for (std::size_t s = 1; s < stages; ++s)
        if (const double most = std::max(worst[s - 1][first], last); most < worst[s][n]) {
          worst[s][n] = most;
          begin[s][n] = first;
        }
    }
  }
  std::vector<stage_range> out(stages);
  for (std::size_t s = stages, end = layers; s-- > 0; end = out[s].first)
    out[s] = {begin[s][end], end};
  return out;
}

}  // namespace pipeline
