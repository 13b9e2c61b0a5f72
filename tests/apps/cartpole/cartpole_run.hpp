#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/apps/run/launcher_harness.hpp"

namespace troupe::test {

/// What a run of the program `cartpole` left behind.
struct cartpole_run {
  launch_result launch;
  nlohmann::json numbers;  ///< null: it has written none
};

/// Runs it to its end under troupe-run, with an observer on each rank but 0 unless `more` options
/// say otherwise, for so many rounds at most.
cartpole_run run_cartpole(int ranks, std::uint64_t seed, int rounds,
                          const std::vector<std::string>& more = {});

}  // namespace troupe::test
