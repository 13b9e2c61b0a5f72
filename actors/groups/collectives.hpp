#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/groups/reduce_by.hpp"
#include "troupe/actors/groups/work/work.hpp"

namespace at {
class Tensor;
}

// The collectives of process groups. All ranks of a group call the same ones in the same order.
// Each has two forms. One blocks until this rank is done. The other one, whose last argument is
// `troupe::async`, returns at once; what is started on one group runs in the order in which it was
// started, that of different groups side by side.
//
// Tensors are dense, of one dtype and on one device in each call, of any strides. Those that are
// written keep their memory and get a newer version. On a rank that is not in the group they do
// nothing, log a warning, and return a work that is not valid.
//
// All throw invalid_argument for arguments that cannot be, before anything is sent;
// collective_mismatch, on all ranks, if the ranks do not agree; collective_timeout, peer_lost,
// group_failed and not_initialized, which name rank, operation, sequence number and cause. After an
// error, what was to be written is undefined, and the group takes no more.
namespace troupe {

/// Selects the form that returns a `work`.
struct async_t {
  explicit async_t() = default;
};
inline constexpr async_t async{};

/// The root's tensor goes to all: the same elements everywhere afterwards. Shapes may differ.
void broadcast(const process_group& group, const at::Tensor& tensor, int src);
work broadcast(const process_group& group, const at::Tensor& tensor, int src, async_t);

/// In place: each element is combined over the ranks, and all get the same bits. Throws
/// invalid_argument where the dtype has no such operation: "all_reduce does not support MAX on
/// complex tensors". A sparse COO tensor becomes the coalesced sum of those of all ranks, which
/// have any number of elements; there is no other reduction of them. That is two collectives, an
/// all_gather_into_tensor and an all_gather, whose names errors have.
void all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op = {});
work all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op, async_t);
work all_reduce(const process_group& group, const at::Tensor& tensor, async_t);

/// The same with several tensors of one dtype, as one operation.
void all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op = {});
work all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op, async_t);

/// Only `dst` gets the result, in place; the tensors of the others stay as they are.
void reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op = {});
work reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op, async_t);

/// One tensor from each rank, each in a tensor of its own: as many elements as that rank has.
void all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor);
work all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor, async_t);

/// The same into one tensor of `size` times the elements of the input, in the order of the ranks:
/// joined along a dimension, or stacked. The input may be this rank's part of the output.
void all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor);
work all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor, async_t);

/// The same with several tensors of one dtype, as one operation. They may be empty.
void all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors);
work all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors, async_t);

/// One tensor from each rank, on `dst`, which alone gives a `gather_list`. Throws invalid_argument:
/// "Argument ``gather_list`` must be specified on destination rank.", "... must NOT be specified on
/// non-destination ranks."
void gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst);
work gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst, async_t);

/// Each rank gets one tensor of `src`, which alone gives a `scatter_list`. Throws invalid_argument:
/// "Argument ``scatter_list`` must be specified on source rank.", "... must NOT be specified on
/// non-source ranks."
void scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src);
work scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src, async_t);

/// The n-th tensors of all ranks are combined on rank n. Parts may differ in size from one another.
void reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op = {});
work reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op, async_t);

/// The same from one tensor of `size` times the elements of the output.
void reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op = {});
work reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op, async_t);

/// The same with several tensors of one dtype, as one operation.
void reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op = {});
work reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op, async_t);

/// Rank n's m-th input goes to rank m's n-th output. Sizes may differ.
void all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list);
work all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list, async_t);

/// The same with parts of one tensor along its first dimension: of as many rows as `splits` say;
/// empty: of equal ones. Throws invalid_argument if splits do not add up to the dimension.
void all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input,
                       const std::vector<std::int64_t>& output_split_sizes = {},
                       const std::vector<std::int64_t>& input_split_sizes = {});
work all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input, const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes, async_t);

/// No rank leaves before all have entered.
void barrier(const process_group& group);
work barrier(const process_group& group, async_t);

}  // namespace troupe
