#pragma once

#include <chrono>

#include "troupe/actors/sync/futex.hpp"

namespace troupe::groups {

/// How long one operation may take. Its time begins when the deadline is first asked for, so that
/// an operation that never waits reads no clock. For one thread.
class time_limit {
public:
  explicit time_limit(std::chrono::milliseconds limit) noexcept : limit_(limit) {}

  std::chrono::milliseconds limit() const noexcept { return limit_; }

  clock::time_point deadline() const noexcept {
    if (deadline_ == clock::time_point::min()) deadline_ = deadline_after(limit_);
    return deadline_;
  }

private:
  std::chrono::milliseconds limit_;
  mutable clock::time_point deadline_ = clock::time_point::min();
};

}  // namespace troupe::groups
