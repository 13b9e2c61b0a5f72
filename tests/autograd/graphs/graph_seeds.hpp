#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe::test {

/// Calls `run` with so many seeds from 1 on until it has complaints or throws, which fail the test;
/// prints how to replay that seed, also when it ends the process. In the environment, TROUPE_SEED
/// is one seed to run alone, or TROUPE_FIRST_SEED and TROUPE_SEEDS are the first one and how many;
/// TROUPE_GO_ON=1 goes on after complaints. `program`: the name of the test program.
void for_seeds(const char* program, std::uint64_t usual,
               const std::function<std::vector<std::string>(std::uint64_t)>& run);

}  // namespace troupe::test
