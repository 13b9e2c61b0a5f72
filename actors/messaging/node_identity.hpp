#pragma once

#include <cstdint>

namespace troupe {

/// Identifies a node within its job.
struct node_identity {
  std::uint32_t rank = 0;
  std::uint64_t job = 0;
  std::uint64_t incarnation = 0;
};

}  // namespace troupe
