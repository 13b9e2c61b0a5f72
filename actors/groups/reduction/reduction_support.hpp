#pragma once

#include <c10/core/ScalarType.h>

#include <string>

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace troupe::groups {

/// Empty when elements of `dtype` can be combined by `op`; otherwise the reason, in PyTorch's words
/// where it has some: "all_reduce does not support MAX on complex tensors". `function` is the
/// collective's name.
///
/// | dtype | sum, product, min, max | avg | premul_sum | band, bor, bxor |
/// | --- | --- | --- | --- | --- |
/// | bool | yes: or, and, and, or | no | no | yes |
/// | integers of 8 to 64 bits | yes | yes | no | yes |
/// | half, bfloat16, float, double, 8-bit floating point | yes | yes | yes | no |
/// | Float8_e8m0fnu, which has neither a sign nor a zero | min and max | no | no | no |
/// | complex | sum | yes | yes | no |
/// | quantized, packed (less than 8 bits) | no | no | no | no |
std::string unsupported_reduction(const char* function, reduce_op op, c10::ScalarType dtype);

/// PyTorch's name: "SUM", "PREMUL_SUM"; that of a value that is none: "operation 42".
std::string reduction_name(reduce_op op);

/// Throws invalid_argument with that reason.
void check_reduction(const char* function, reduce_op op, c10::ScalarType dtype);

}  // namespace troupe::groups
