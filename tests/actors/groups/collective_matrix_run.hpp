#pragma once

#include <gtest/gtest.h>

#include <iostream>

#include "tests/actors/groups/collective_matrix.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/transport/memory/arena.hpp"

namespace troupe::test {

/// Runs a plan, each group's cases in nodes of this process, whose tensors lie in an arena. Stops
/// at the first group with a failure.
inline void run_matrix(const matrix_plan& plan) {
  std::string why_not;
  if (!transport::install_arena({}, why_not))
    std::cout << "there is no arena, so its cases are staged: " << why_not << '\n';
  for (const auto& [of, cases] : plan) {
    const auto& [ranks, place] = of;
    SCOPED_TRACE(std::to_string(ranks) + " ranks, place " +
                 std::to_string(static_cast<int>(place)));
    local_group all(ranks, options_of(place));
    all.run([&cases = cases](const process_group& group, int) {
      for (const auto& one : cases) check_matrix_case(group, one);
    });
    if (testing::Test::HasFailure()) return;
  }
  std::cout << cases_in(plan) << " cases\n";
}

}  // namespace troupe::test
