#pragma once

#include <cstdint>

namespace troupe {

/// How a collective combines the values of the ranks. The values travel; append, never reorder.
///
/// Elements are combined in the order of the ranks, so a result does not depend on timing, on the
/// algorithm or on where the ranks are. half, bfloat16 and the 8-bit floating-point types are
/// combined in float32 and rounded once. Integers wrap around. A NaN of any rank makes min and max
/// NaN, as at::amin and at::amax do.
enum class reduce_op : std::uint8_t {
  sum,
  product,
  min,
  max,
  band,
  bor,
  bxor,
  avg,        ///< the sum divided by the number of ranks; of integers, rounded toward zero
  premul_sum  ///< the sum of each rank's values, multiplied by the rank's factor before
};

inline constexpr int reduce_ops = 9;

}  // namespace troupe
