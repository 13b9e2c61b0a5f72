#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/timing.hpp"

namespace troupe {
class node;
}

namespace troupe::bench {

/// Whom rank 0 calls.
inline const std::string peer = "worker1";

inline constexpr std::size_t mib = 1 << 20;

/// Measures a row from rank 0; the other ranks serve.
using row = std::function<std::vector<measurement>(const node&)>;

/// Those of docs/benchmarks.md that this program measures, by name.
const std::map<std::string, row>& bench_rows();

/// Round trips of tensors of 4 B to 400 MB.
std::vector<measurement> identity(const node& here);

/// The time of one of many calls with tensors of 1 MiB to 400 MB, four of them under way.
std::vector<measurement> perftest_am(const node& here);

// Some of them, by what they are about.
const std::map<std::string, row>& autograd_rows();
const std::map<std::string, row>& dead_rank_rows();
const std::map<std::string, row>& device_rows();
const std::map<std::string, row>& lending_rows();
const std::map<std::string, row>& loss_rows();
const std::map<std::string, row>& network_rows();
const std::map<std::string, row>& optim_rows();
const std::map<std::string, row>& reliability_rows();
const std::map<std::string, row>& rref_rows();

}  // namespace troupe::bench
