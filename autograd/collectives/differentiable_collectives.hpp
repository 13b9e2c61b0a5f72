#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/groups/collectives.hpp"

// Collectives that backward passes go through: what torch.distributed.nn.functional has. Each
// leaves its arguments alone, returns new tensors, and is recorded in the graph of each rank: the
// gradient of a sum over all ranks' losses flows back by the transposed collective.
//
// A backward pass is a collective call as well. All ranks run one through what these have returned,
// the same ones in the same order, as they did forward: libtorch runs what was recorded last first.
// So each rank uses at least one result of each call, in a loss of its own. They are recorded on
// every rank, whether or not its tensors require gradients, unless gradients are disabled, which
// they are on all ranks or on none.
//
// Reductions are sum, avg and premul_sum; others throw invalid_argument, on all ranks. All else is
// as in collectives.hpp. On a node that is not in the group they return undefined tensors, or none.
namespace troupe::differentiable {

/// Those of the tensors of a list, by rank.
using tensor_sizes = std::vector<std::vector<std::int64_t>>;

/// The source's elements, in the sizes of `tensor`. Backward: sums the gradients on `src`; those of
/// the others are zero.
at::Tensor broadcast(const process_group& group, const at::Tensor& tensor, int src);

/// Backward: an all_reduce of the gradients.
at::Tensor all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op = {});

/// The result on `dst`, zeros on the others. Backward: a broadcast from `dst`; gradients of the
/// zeros are ignored.
at::Tensor reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op = {});

/// One tensor from each rank, of `output_sizes`; empty: of the size of this rank's. Backward: a
/// reduce_scatter.
std::vector<at::Tensor> all_gather(const process_group& group, const at::Tensor& tensor,
                                   const tensor_sizes& output_sizes = {});

/// The ranks' tensors, joined along the first dimension. Backward: a reduce_scatter_tensor.
at::Tensor all_gather_into_tensor(const process_group& group, const at::Tensor& tensor);

/// One tensor from each rank on `dst`, of `output_sizes`, or else of the size of this rank's; zeros
/// on the others. Backward: a scatter from `dst`; gradients of the zeros are ignored.
std::vector<at::Tensor> gather(const process_group& group, const at::Tensor& tensor, int dst,
                               const tensor_sizes& output_sizes = {});

/// This rank's one of the tensors of `src`. The others give as many of the same sizes, which are
/// not read. Backward: a gather on `src`; the gradients of the others are zero.
at::Tensor scatter(const process_group& group, const std::vector<at::Tensor>& tensors, int src);

/// The n-th tensors of all ranks, combined on rank n. Backward: an all_gather.
at::Tensor reduce_scatter(const process_group& group, const std::vector<at::Tensor>& input_list,
                          reduce_by op = {});

/// The same of parts of a tensor along its first dimension. Backward: an all_gather_into_tensor.
at::Tensor reduce_scatter_tensor(const process_group& group, const at::Tensor& input,
                                 reduce_by op = {});

/// Rank n's m-th input is rank m's n-th result, of `output_sizes`; empty: each of the size of this
/// rank's input for that rank. Backward: an all_to_all.
std::vector<at::Tensor> all_to_all(const process_group& group,
                                   const std::vector<at::Tensor>& input_tensor_list,
                                   const tensor_sizes& output_sizes = {});

/// The same with parts of one tensor along its first dimension, of as many rows as `splits` say;
/// empty: of equal ones. Backward: an all_to_all_single.
at::Tensor all_to_all_single(const process_group& group, const at::Tensor& input,
                             const std::vector<std::int64_t>& output_split_sizes = {},
                             const std::vector<std::int64_t>& input_split_sizes = {});

}  // namespace troupe::differentiable
