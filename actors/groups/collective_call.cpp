#include "troupe/actors/groups/collective_call.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "troupe/actors/groups/process_group/group_core.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"

namespace troupe::groups {

namespace {

using use = prepared_call::use;

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

}  // namespace

collective_call::collective_call(const process_group& in, operation_kind kind)
    : group(in.member(to_string(kind))), call(kind) {}

void collective_call::root(int rank, const char* name) {
  if (rank < 0 || rank >= group->size())
    throw invalid_argument(
        fmt::format("Group rank {} is not part of group {}: it is the {} of a {}", rank,
                    group->about().name, name, to_string(call.what().kind)));
  call.what().root = rank;
}

bool collective_call::is_root() { return call.what().root == group->rank(); }

void collective_call::reduction(reduce_by op) {
  call.what().reduction = op.op;
  call.what().factor = op.factor;
  // Without any tensor there is nothing to combine.
  if (call.what().dtype != c10::ScalarType::Undefined)
    check_reduction(to_string(call.what().kind), op.op, call.what().dtype);
}

void collective_call::count(const std::vector<at::Tensor>& list, const char* name) {
  if (list.size() != static_cast<std::size_t>(group->size()))
    throw invalid_argument(fmt::format("{}: {} has {} tensors, and the group {} ranks",
                                       to_string(call.what().kind), name, list.size(),
                                       group->size()));
}

void collective_call::times(const at::Tensor& large, const char* large_name,
                            const at::Tensor& small, const char* small_name) {
  if (large.numel() != small.numel() * group->size())
    throw invalid_argument(fmt::format(
        "{}: {} size must be equal to world_size times {} size: {} elements are not {} times {}",
        to_string(call.what().kind), large_name, small_name, large.numel(), group->size(),
        small.numel()));
}

void collective_call::run() {
  call.check_overlaps(group->rank());
  group->run(call);
}

work collective_call::start() {
  call.check_overlaps(group->rank());
  return group->start(std::move(call));
}

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

std::optional<collective_call> barrier_call(const process_group& group) {
  std::optional<collective_call> out(std::in_place, group, operation_kind::barrier);
  if (!*out) return std::nullopt;
  return out;
}

}  // namespace troupe::groups
