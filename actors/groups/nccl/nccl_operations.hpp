#pragma once

#include <c10/core/ScalarType.h>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/nccl/nccl_functions.hpp"

namespace troupe::groups::nccl {

/// Does NCCL combine values of `dtype` by `how`? half and bfloat16 accumulate in float32 on devices
/// where NCCL does so; complex numbers are added as pairs, booleans as the larger one.
bool can_reduce(reduce_op how, c10::ScalarType dtype) noexcept;

/// Throws invalid_argument, in the name of the operation, if NCCL cannot carry `what` out: "Cannot
/// use ReduceOp.BAND with NCCL".
void check_operation(const operation& what);

/// Asks NCCL for `what` on `stream`, within a group of its calls. Pre: check_operation. Throws
/// transport_error.
///
/// Lists of tensors are broadcasts and reductions of one rank after the other, and all_to_all,
/// gather and scatter sends and receives, as NCCL's documentation proposes (Point-to-point
/// communication): all that are in one group run together.
void issue(const nccl_functions& functions, const operation& what, int rank, int size,
           communicator_handle on, void* stream);

}  // namespace troupe::groups::nccl
