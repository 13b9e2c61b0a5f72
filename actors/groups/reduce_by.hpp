#pragma once

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace troupe {

/// How a reduction combines the ranks' values: a reduce_op, or premul_sum of a factor.
struct reduce_by {
  constexpr reduce_by(reduce_op op_ = reduce_op::sum) noexcept : op(op_) {}

  reduce_op op;
  double factor = 1;
};

/// The sum of each rank's values multiplied by its factor. Ranks may have different ones.
constexpr reduce_by premul_sum(double factor) noexcept {
  reduce_by out(reduce_op::premul_sum);
  out.factor = factor;
  return out;
}

}  // namespace troupe
