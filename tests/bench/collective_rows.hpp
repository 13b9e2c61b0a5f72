#pragma once

#include "tests/bench/bench_rows.hpp"

namespace troupe::bench {

/// Rows that all ranks measure together, by name: each returns the same on every rank.
const std::map<std::string, row>& collective_rows();

}  // namespace troupe::bench
