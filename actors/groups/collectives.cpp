#include "troupe/actors/groups/collectives.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/collective_call.hpp"
#include "troupe/actors/groups/sparse_all_reduce.hpp"

namespace troupe {

namespace {

using groups::collective_call;

void finish(std::optional<collective_call>&& what) {
  if (what) what->run();
}

work begin(std::optional<collective_call>&& what) { return what ? what->start() : work(); }

void check_pairs(const char* name, std::size_t outputs, std::size_t inputs) {
  if (outputs != inputs)
    throw invalid_argument(fmt::format("{}: {} output tensors are not one for each of {} inputs",
                                       name, outputs, inputs));
}

}  // namespace

void broadcast(const process_group& group, const at::Tensor& tensor, int src) {
  finish(groups::broadcast_call(group, tensor, src));
}
work broadcast(const process_group& group, const at::Tensor& tensor, int src, async_t) {
  return begin(groups::broadcast_call(group, tensor, src));
}

void all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op) {
  if (tensor.is_sparse()) [[unlikely]]
    return groups::sparse_all_reduce(group, tensor, op);
  finish(groups::all_reduce_call(group, &tensor, 1, op));
}
work all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op, async_t) {
  if (tensor.is_sparse()) [[unlikely]]
    return groups::start_sparse_all_reduce(group, tensor, op);
  return begin(groups::all_reduce_call(group, &tensor, 1, op));
}
work all_reduce(const process_group& group, const at::Tensor& tensor, async_t) {
  return all_reduce(group, tensor, reduce_by(), async);
}

void all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op) {
  finish(groups::all_reduce_call(group, tensors.data(), tensors.size(), op));
}
work all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op, async_t) {
  return begin(groups::all_reduce_call(group, tensors.data(), tensors.size(), op));
}

void reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op) {
  finish(groups::reduce_call(group, tensor, dst, op));
}
work reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op, async_t) {
  return begin(groups::reduce_call(group, tensor, dst, op));
}

void all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor) {
  finish(groups::all_gather_call(group, tensor_list, tensor));
}
work all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor, async_t) {
  return begin(groups::all_gather_call(group, tensor_list, tensor));
}

void all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor) {
  finish(groups::all_gather_into_call(group, &output_tensor, &input_tensor, 1));
}
work all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor, async_t) {
  return begin(groups::all_gather_into_call(group, &output_tensor, &input_tensor, 1));
}

void all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors) {
  check_pairs("all_gather_coalesced", output_tensors.size(), input_tensors.size());
  finish(groups::all_gather_into_call(group, output_tensors.data(), input_tensors.data(),
                                      input_tensors.size()));
}
work all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors, async_t) {
  check_pairs("all_gather_coalesced", output_tensors.size(), input_tensors.size());
  return begin(groups::all_gather_into_call(group, output_tensors.data(), input_tensors.data(),
                                            input_tensors.size()));
}

void gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst) {
  finish(groups::gather_call(group, tensor, gather_list, dst));
}
work gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst, async_t) {
  return begin(groups::gather_call(group, tensor, gather_list, dst));
}

void scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src) {
  finish(groups::scatter_call(group, tensor, scatter_list, src));
}
work scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src, async_t) {
  return begin(groups::scatter_call(group, tensor, scatter_list, src));
}

void reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op) {
  finish(groups::reduce_scatter_call(group, output, input_list, op));
}
work reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op, async_t) {
  return begin(groups::reduce_scatter_call(group, output, input_list, op));
}

void reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op) {
  finish(groups::reduce_scatter_tensor_call(group, &output, &input, 1, op));
}
work reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op, async_t) {
  return begin(groups::reduce_scatter_tensor_call(group, &output, &input, 1, op));
}

void reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op) {
  check_pairs("reduce_scatter_coalesced", outputs.size(), inputs.size());
  finish(
      groups::reduce_scatter_tensor_call(group, outputs.data(), inputs.data(), inputs.size(), op));
}
work reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op, async_t) {
  check_pairs("reduce_scatter_coalesced", outputs.size(), inputs.size());
  return begin(
      groups::reduce_scatter_tensor_call(group, outputs.data(), inputs.data(), inputs.size(), op));
}

void all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list) {
  finish(groups::all_to_all_call(group, output_tensor_list, input_tensor_list));
}
work all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list, async_t) {
  return begin(groups::all_to_all_call(group, output_tensor_list, input_tensor_list));
}

void all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input, const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes) {
  finish(
      groups::all_to_all_single_call(group, output, input, output_split_sizes, input_split_sizes));
}
work all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input, const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes, async_t) {
  return begin(
      groups::all_to_all_single_call(group, output, input, output_split_sizes, input_split_sizes));
}

void barrier(const process_group& group) { finish(groups::barrier_call(group)); }
work barrier(const process_group& group, async_t) { return begin(groups::barrier_call(group)); }

}  // namespace troupe
