#pragma once

#include <cstdint>
#include <string>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::groups {

/// What the ranks of a group have to agree on before an operation begins. Plain data of a fixed
/// size: it travels in messages and lies in shared memory.
struct operation_signature {
  std::uint64_t sequence = 0;
  /// Of one rank's contribution, where it has to be the same on all ranks; 0 where it may differ
  /// (all_gather, gather and scatter of lists, all_to_all).
  std::uint64_t elements = 0;
  operation_kind kind = operation_kind::barrier;
  reduce_op reduction = reduce_op::sum;
  std::int8_t dtype = static_cast<std::int8_t>(c10::ScalarType::Undefined);
  std::uint8_t device = 0;     ///< a c10::DeviceType
  std::int32_t root = 0;       ///< 0 where the kind has none
  std::uint32_t tensors = 0;   ///< of operations that take any number
  std::uint32_t reserved = 0;  ///< no bytes without a value

  friend bool operator==(const operation_signature&, const operation_signature&) = default;
};
static_assert(sizeof(operation_signature) == 32);

/// The signature of `what` in a group of `size` ranks.
operation_signature signature_of(const operation& what, int size);

/// For people: "all_reduce(sum) of 10 elements of Float, sequence number 3".
std::string to_string(const operation_signature& what);

}  // namespace troupe::groups
