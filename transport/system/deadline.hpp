#pragma once

#include <chrono>

namespace troupe::transport {

/// Now plus `timeout`; timeouts of a year and more, and so also milliseconds::max(), do not
/// overflow.
std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout);

/// The time until `deadline`, rounded up; 0 if it has passed.
std::chrono::milliseconds time_left(std::chrono::steady_clock::time_point deadline);

}  // namespace troupe::transport
