#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "troupe/actors/operators/value.hpp"

namespace troupe::detail {

/// How far a value is from what a parameter wants. Of several overloads that fit, the one with the
/// smallest sum is meant.
enum class distance : int {
  none = 0,
  number = 1,    ///< a number for a Scalar, tensors for optional ones
  widened = 2,   ///< an int for a float, a text for a device
  repeated = 3,  ///< one number for a list of a known length
  tensor = 10,   ///< a number for a tensor: it takes part in the result's dtype as numbers do
  item = 20,     ///< a tensor without dimensions for a number
};

struct converted {
  c10::IValue value;
  distance cost = distance::none;
};

/// The value as what `parameter` wants, if libtorch would take it there. Does not throw for values
/// that do not fit.
std::optional<converted> to_ivalue(const op_value& given, const c10::Argument& parameter);

/// Can values of this type be arguments and results? An optional may be none, whatever of.
bool can_travel(const c10::Type& type);

/// Throws encode_error for what cannot travel.
op_value from_ivalue(const c10::IValue& value, const c10::Type& type);

}  // namespace troupe::detail
