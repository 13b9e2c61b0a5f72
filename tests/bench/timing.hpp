#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace troupe::bench {

using clock = std::chrono::steady_clock;

/// One line of a program's output, as docs/benchmarks.md describes it.
struct measurement {
  std::string unit;
  double value = 0;
  std::size_t bytes = 0;  ///< of the tensor sent; 0: none
  double p99 = -1;        ///< negative: not given
};

double seconds_since(clock::time_point start);

/// The value that `share` of all values are below. `values` must not be empty.
double percentile(std::vector<double> values, double share);

/// How long and how often to measure.
struct effort {
  double seconds = 2;
  std::size_t least = 3;
  std::size_t most = 1'000'000;
  std::size_t warm_up = 2'000;  ///< calls, for a quarter of the time at most
};

/// Seconds of each call.
std::vector<double> call_times(const std::function<void()>& call, const effort& how = {});

/// Two ways of doing the same, in turns: how many times the first takes the second's time, medians.
/// `how.warm_up` are turns that do not count.
double times_as_long(const std::function<void()>& first, const std::function<void()>& second,
                     const effort& how);

/// Median and 99th percentile, in microseconds.
measurement times_of(const std::vector<double>& seconds, std::size_t bytes = 0);

/// Calls a second: the median of batches of so many calls.
measurement rate_of(double calls, const std::vector<double>& seconds);

/// Writes the measurements of a row. Throws troupe::invalid_argument when it cannot.
void write(const std::string& path, const std::string& row, std::uint32_t ranks,
           const std::vector<measurement>& measured);

/// The same of several rows.
void write_rows(const std::string& path, std::uint32_t ranks,
                const std::map<std::string, std::vector<measurement>>& measured);

/// Writes why a row cannot be measured on this machine.
void write_reason(const std::string& path, const std::string& row, const std::string& why);

}  // namespace troupe::bench
