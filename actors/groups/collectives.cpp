#include "troupe/actors/groups/collectives.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "troupe/actors/groups/group_core.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"

namespace troupe {

namespace {

using groups::group_core;
using groups::operation_kind;
using groups::prepared_call;
using use = prepared_call::use;

// A collective that a function below has been asked for. Without a group, where this node is in
// none.
struct collective_call {
  collective_call(const process_group& in, operation_kind kind)
      : group(in.member(groups::to_string(kind))), call(kind) {}

  // Is there something to do?
  explicit operator bool() const noexcept { return group != nullptr; }

  void root(int rank, const char* name) {
    if (rank < 0 || rank >= group->size())
      throw invalid_argument(
          fmt::format("Group rank {} is not part of group {}: it is the {} of a {}", rank,
                      group->about().name, name, groups::to_string(call.what().kind)));
    call.what().root = rank;
  }

  bool is_root() { return call.what().root == group->rank(); }

  void reduction(reduce_by op) {
    call.what().reduction = op.op;
    call.what().factor = op.factor;
    // Without any tensor there is nothing to combine.
    if (call.what().dtype != c10::ScalarType::Undefined)
      groups::check_reduction(groups::to_string(call.what().kind), op.op, call.what().dtype);
  }

  void count(const std::vector<at::Tensor>& list, const char* name) {
    if (list.size() != static_cast<std::size_t>(group->size()))
      throw invalid_argument(fmt::format("{}: {} has {} tensors, and the group {} ranks",
                                         groups::to_string(call.what().kind), name, list.size(),
                                         group->size()));
  }

  // One has `size` times the elements of the other.
  void times(const at::Tensor& large, const char* large_name, const at::Tensor& small,
             const char* small_name) {
    if (large.numel() != small.numel() * group->size())
      throw invalid_argument(fmt::format(
          "{}: {} size must be equal to world_size times {} size: {} elements are not {} times {}",
          groups::to_string(call.what().kind), large_name, small_name, large.numel(), group->size(),
          small.numel()));
  }

  void run() {
    call.check_overlaps(group->rank());
    group->run(call);
  }

  work start() {
    call.check_overlaps(group->rank());
    return group->start(std::move(call));
  }

  group_core* group;
  prepared_call call;
};

void finish(std::optional<collective_call>&& what) {
  if (what) what->run();
}

work begin(std::optional<collective_call>&& what) { return what ? what->start() : work(); }

std::optional<collective_call> broadcast_call(const process_group& group, const at::Tensor& tensor,
                                              int src) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::broadcast);
  if (!*out) return std::nullopt;
  out->root(src, "source");
  out->call.output(tensor, out->is_root() ? use::updated : use::written);
  return out;
}

std::optional<collective_call> all_reduce_call(const process_group& group,
                                               const at::Tensor* tensors, std::size_t count,
                                               reduce_by op) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::all_reduce);
  if (!*out) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) out->call.output(tensors[i], use::updated);
  out->reduction(op);
  return out;
}

std::optional<collective_call> reduce_call(const process_group& group, const at::Tensor& tensor,
                                           int dst, reduce_by op) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::reduce);
  if (!*out) return std::nullopt;
  out->root(dst, "destination");
  out->call.input(tensor);
  if (out->is_root()) out->call.output(tensor);
  out->reduction(op);
  return out;
}

std::optional<collective_call> all_gather_call(const process_group& group,
                                               const std::vector<at::Tensor>& list,
                                               const at::Tensor& tensor) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::all_gather);
  if (!*out) return std::nullopt;
  out->count(list, "tensor_list");
  out->call.input(tensor);
  for (const auto& one : list) out->call.output(one);
  return out;
}

std::optional<collective_call> all_gather_into_call(const process_group& group,
                                                    const at::Tensor* outputs,
                                                    const at::Tensor* inputs, std::size_t count) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::all_gather_into_tensor);
  if (!*out) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    out->call.input(inputs[i]);
    out->call.output(outputs[i]);
    out->times(outputs[i], "output tensor", inputs[i], "input tensor");
  }
  return out;
}

std::optional<collective_call> gather_call(const process_group& group, const at::Tensor& tensor,
                                           const std::vector<at::Tensor>& list, int dst) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::gather);
  if (!*out) return std::nullopt;
  out->root(dst, "destination");
  if (out->is_root() && list.empty())
    throw invalid_argument("Argument ``gather_list`` must be specified on destination rank.");
  if (!out->is_root() && !list.empty())
    throw invalid_argument(
        "Argument ``gather_list`` must NOT be specified on non-destination ranks.");
  if (out->is_root()) out->count(list, "gather_list");
  out->call.input(tensor);
  for (const auto& one : list) out->call.output(one);
  return out;
}

std::optional<collective_call> scatter_call(const process_group& group, const at::Tensor& tensor,
                                            const std::vector<at::Tensor>& list, int src) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::scatter);
  if (!*out) return std::nullopt;
  out->root(src, "source");
  if (out->is_root() && list.empty())
    throw invalid_argument("Argument ``scatter_list`` must be specified on source rank.");
  if (!out->is_root() && !list.empty())
    throw invalid_argument("Argument ``scatter_list`` must NOT be specified on non-source ranks.");
  if (out->is_root()) out->count(list, "scatter_list");
  for (const auto& one : list) out->call.input(one);
  out->call.output(tensor);
  return out;
}

std::optional<collective_call> reduce_scatter_call(const process_group& group,
                                                   const at::Tensor& output,
                                                   const std::vector<at::Tensor>& list,
                                                   reduce_by op) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::reduce_scatter);
  if (!*out) return std::nullopt;
  out->count(list, "input_list");
  for (const auto& one : list) out->call.input(one);
  out->call.output(output);
  out->reduction(op);
  return out;
}

std::optional<collective_call> reduce_scatter_tensor_call(const process_group& group,
                                                          const at::Tensor* outputs,
                                                          const at::Tensor* inputs,
                                                          std::size_t count, reduce_by op) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::reduce_scatter_tensor);
  if (!*out) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    out->call.input(inputs[i]);
    out->call.output(outputs[i]);
    out->times(inputs[i], "input tensor", outputs[i], "output tensor");
  }
  out->reduction(op);
  return out;
}

std::optional<collective_call> all_to_all_call(const process_group& group,
                                               const std::vector<at::Tensor>& outputs,
                                               const std::vector<at::Tensor>& inputs) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::all_to_all);
  if (!*out) return std::nullopt;
  out->count(inputs, "input_tensor_list");
  out->count(outputs, "output_tensor_list");
  for (const auto& one : inputs) out->call.input(one);
  for (const auto& one : outputs) out->call.output(one);
  return out;
}

// The elements of each part of a tensor that is split along its first dimension.
std::vector<std::int64_t> split_elements(const at::Tensor& tensor,
                                         const std::vector<std::int64_t>& rows, int ranks) {
  const auto all = tensor.dim() == 0 ? 1 : tensor.size(0);
  if (rows.empty()) {
    if (all % ranks != 0)
      throw invalid_argument("Tensor's dim 0 does not divide equally across group size");
    return std::vector<std::int64_t>(static_cast<std::size_t>(ranks), tensor.numel() / ranks);
  }
  if (rows.size() != static_cast<std::size_t>(ranks))
    throw invalid_argument("Number of tensor splits not equal to group size");
  // None is larger than all, so the sum does not overflow.
  const bool wrong = std::ranges::any_of(rows, [&](auto one) { return one < 0 || one > all; });
  if (wrong || std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) != all)
    throw invalid_argument("Split sizes doesn't match total dim 0 size");
  std::vector<std::int64_t> out;
  for (const auto one : rows) out.push_back(all == 0 ? 0 : tensor.numel() / all * one);
  return out;
}

std::optional<collective_call> all_to_all_single_call(const process_group& group,
                                                      const at::Tensor& output,
                                                      const at::Tensor& input,
                                                      const std::vector<std::int64_t>& output_rows,
                                                      const std::vector<std::int64_t>& input_rows) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::all_to_all_single);
  if (!*out) return std::nullopt;
  out->call.input(input);
  out->call.output(output);
  out->call.input_splits = split_elements(input, input_rows, out->group->size());
  out->call.output_splits = split_elements(output, output_rows, out->group->size());
  return out;
}

void check_pairs(const char* name, std::size_t outputs, std::size_t inputs) {
  if (outputs != inputs)
    throw invalid_argument(fmt::format("{}: {} output tensors are not one for each of {} inputs",
                                       name, outputs, inputs));
}

}  // namespace

void broadcast(const process_group& group, const at::Tensor& tensor, int src) {
  finish(broadcast_call(group, tensor, src));
}
work broadcast(const process_group& group, const at::Tensor& tensor, int src, async_t) {
  return begin(broadcast_call(group, tensor, src));
}

void all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op) {
  finish(all_reduce_call(group, &tensor, 1, op));
}
work all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op, async_t) {
  return begin(all_reduce_call(group, &tensor, 1, op));
}
work all_reduce(const process_group& group, const at::Tensor& tensor, async_t) {
  return all_reduce(group, tensor, reduce_by(), async);
}

void all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op) {
  finish(all_reduce_call(group, tensors.data(), tensors.size(), op));
}
work all_reduce_coalesced(const process_group& group, const std::vector<at::Tensor>& tensors,
                          reduce_by op, async_t) {
  return begin(all_reduce_call(group, tensors.data(), tensors.size(), op));
}

void reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op) {
  finish(reduce_call(group, tensor, dst, op));
}
work reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op, async_t) {
  return begin(reduce_call(group, tensor, dst, op));
}

void all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor) {
  finish(all_gather_call(group, tensor_list, tensor));
}
work all_gather(const process_group& group, const std::vector<at::Tensor>& tensor_list,
                const at::Tensor& tensor, async_t) {
  return begin(all_gather_call(group, tensor_list, tensor));
}

void all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor) {
  finish(all_gather_into_call(group, &output_tensor, &input_tensor, 1));
}
work all_gather_into_tensor(const process_group& group, const at::Tensor& output_tensor,
                            const at::Tensor& input_tensor, async_t) {
  return begin(all_gather_into_call(group, &output_tensor, &input_tensor, 1));
}

void all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors) {
  check_pairs("all_gather_coalesced", output_tensors.size(), input_tensors.size());
  finish(all_gather_into_call(group, output_tensors.data(), input_tensors.data(),
                              input_tensors.size()));
}
work all_gather_coalesced(const process_group& group, const std::vector<at::Tensor>& output_tensors,
                          const std::vector<at::Tensor>& input_tensors, async_t) {
  check_pairs("all_gather_coalesced", output_tensors.size(), input_tensors.size());
  return begin(all_gather_into_call(group, output_tensors.data(), input_tensors.data(),
                                    input_tensors.size()));
}

void gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst) {
  finish(gather_call(group, tensor, gather_list, dst));
}
work gather(const process_group& group, const at::Tensor& tensor,
            const std::vector<at::Tensor>& gather_list, int dst, async_t) {
  return begin(gather_call(group, tensor, gather_list, dst));
}

void scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src) {
  finish(scatter_call(group, tensor, scatter_list, src));
}
work scatter(const process_group& group, const at::Tensor& tensor,
             const std::vector<at::Tensor>& scatter_list, int src, async_t) {
  return begin(scatter_call(group, tensor, scatter_list, src));
}

void reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op) {
  finish(reduce_scatter_call(group, output, input_list, op));
}
work reduce_scatter(const process_group& group, const at::Tensor& output,
                    const std::vector<at::Tensor>& input_list, reduce_by op, async_t) {
  return begin(reduce_scatter_call(group, output, input_list, op));
}

void reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op) {
  finish(reduce_scatter_tensor_call(group, &output, &input, 1, op));
}
work reduce_scatter_tensor(const process_group& group, const at::Tensor& output,
                           const at::Tensor& input, reduce_by op, async_t) {
  return begin(reduce_scatter_tensor_call(group, &output, &input, 1, op));
}

void reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op) {
  check_pairs("reduce_scatter_coalesced", outputs.size(), inputs.size());
  finish(reduce_scatter_tensor_call(group, outputs.data(), inputs.data(), inputs.size(), op));
}
work reduce_scatter_coalesced(const process_group& group, const std::vector<at::Tensor>& outputs,
                              const std::vector<at::Tensor>& inputs, reduce_by op, async_t) {
  check_pairs("reduce_scatter_coalesced", outputs.size(), inputs.size());
  return begin(reduce_scatter_tensor_call(group, outputs.data(), inputs.data(), inputs.size(), op));
}

void all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list) {
  finish(all_to_all_call(group, output_tensor_list, input_tensor_list));
}
work all_to_all(const process_group& group, const std::vector<at::Tensor>& output_tensor_list,
                const std::vector<at::Tensor>& input_tensor_list, async_t) {
  return begin(all_to_all_call(group, output_tensor_list, input_tensor_list));
}

void all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input, const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes) {
  finish(all_to_all_single_call(group, output, input, output_split_sizes, input_split_sizes));
}
work all_to_all_single(const process_group& group, const at::Tensor& output,
                       const at::Tensor& input, const std::vector<std::int64_t>& output_split_sizes,
                       const std::vector<std::int64_t>& input_split_sizes, async_t) {
  return begin(all_to_all_single_call(group, output, input, output_split_sizes, input_split_sizes));
}

void barrier(const process_group& group) {
  collective_call what(group, operation_kind::barrier);
  if (what) what.run();
}
work barrier(const process_group& group, async_t) {
  collective_call what(group, operation_kind::barrier);
  return what ? what.start() : work();
}

}  // namespace troupe
