#pragma once

#include <vector>

#include "tests/actors/node/job.hpp"

namespace troupe::test {

/// Contexts and passes of these nodes end, and soon.
inline void expect_no_contexts(const std::vector<node>& nodes) {
  for (const auto& n : nodes)
    EXPECT_TRUE(eventually([&] {
      const auto left = n.debug_info();
      return left.autograd_contexts == 0 && left.backward_passes == 0;
    })) << n.name()
        << ": " << n.debug_info().autograd_contexts << " contexts, "
        << n.debug_info().backward_passes << " passes";
}

}  // namespace troupe::test
