#pragma once

#include <c10/util/Backtrace.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::groups {

/// What a call of an operation was in full.
struct call_detail {
  std::string inputs, outputs;  ///< their shapes: "[2, 5], [0]"
  c10::Backtrace stack;         ///< where the program has called

  std::string stack_text() const { return stack ? stack->get() : std::string(); }
};

/// "[2, 5], [0]".
std::string shapes_of(std::span<const at::Tensor> tensors);

/// The last operations of one rank of a group in full, beside the flight recorder, by its numbers.
/// Kept at debug level `detail`. Thread-safe.
class call_details {
public:
  /// Of the calling thread.
  void add(std::uint64_t record, const operation& what);

  /// nullptr: there is none.
  std::shared_ptr<const call_detail> find(std::uint64_t record) const;

private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<const call_detail>> all_;
};

}  // namespace troupe::groups
