#pragma once

#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/groups/reduce_by.hpp"
#include "troupe/actors/groups/work/work.hpp"

namespace troupe::groups {

/// An all_reduce of a sparse COO tensor, as two collectives: an all_gather_into_tensor of what each
/// rank has, and an all_gather of its indices and values. Each rank then sums in the order of the
/// ranks, half and bfloat16 in float32. The tensor becomes the sum, coalesced.
void sparse_all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op);
work start_sparse_all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op);

}  // namespace troupe::groups
