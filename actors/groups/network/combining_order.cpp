#include "troupe/actors/groups/network/combining_order.hpp"

#include <ATen/core/Tensor.h>

namespace troupe::groups::network {

namespace {

// Dtypes whose sums are rounded after each step of a schedule, where a reduction rounds once.
bool rounds_once(c10::ScalarType dtype) noexcept {
  return c10::isReducedFloatingType(dtype) || c10::isFloat8Type(dtype);
}

}  // namespace

bool order_is_free(reduce_op reduction, c10::ScalarType dtype) noexcept {
  return c10::isIntegralType(dtype, true) && reduction != reduce_op::avg &&
         reduction != reduce_op::premul_sum;
}

bool goes_in_order(const operation& what, const network_ways& ways) noexcept {
  const bool composes = what.reduction != reduce_op::avg && what.reduction != reduce_op::premul_sum;
  return !composes || !(order_is_free(what.reduction, what.dtype) ||
                        (ways.any_order && !rounds_once(what.dtype)));
}

}  // namespace troupe::groups::network
