#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "troupe/actors/operators/value.hpp"

namespace troupe::detail {

/// The cost of converting a value to a parameter's type. Of several overloads that fit, the one
/// with the smallest sum is chosen.
enum class distance : int {
  none = 0,
  number = 1,    ///< a number for a Scalar, tensors for optional ones
  widened = 2,   ///< an int for a float, a string for a device
  repeated = 3,  ///< one number for a list of a known length
  tensor = 10,   ///< a number for a tensor: it takes part in the result's dtype as numbers do
  item = 20,     ///< a tensor without dimensions for a number
};

struct converted {
  c10::IValue value;
  distance cost = distance::none;
};

/// The value converted to the type of `parameter`, if libtorch would accept it there; empty if not.
std::optional<converted> to_ivalue(const op_value& given, const c10::Argument& parameter);

/// Can values of this type be arguments and results? An optional may be none, whatever its type.
bool can_travel(const c10::Type& type);

/// Throws encode_error for a value that cannot be sent.
op_value from_ivalue(const c10::IValue& value, const c10::Type& type);

}  // namespace troupe::detail
