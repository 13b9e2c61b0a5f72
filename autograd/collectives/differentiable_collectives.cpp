#include "troupe/autograd/collectives/differentiable_collectives.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <numeric>

#include "troupe/actors/groups/reduction/reduction_support.hpp"
#include "troupe/autograd/collectives/collective_node.hpp"
#include "troupe/messages/base/error.hpp"

// Calls of what is here and of the plain ones are qualified: both are found by their arguments.
namespace troupe::differentiable {

namespace {

using autograd::detail::record_collective;
using gradient_list = const std::vector<at::Tensor>&;

at::Tensor copy_of(const at::Tensor& tensor) {
  return tensor.detach().clone(at::MemoryFormat::Contiguous);
}

// As inputs of plain collectives.
std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> out;
  for (const auto& one : tensors) out.push_back(one.detach());
  return out;
}

tensor_sizes sizes_of(const std::vector<at::Tensor>& tensors) {
  tensor_sizes out;
  for (const auto& one : tensors) out.push_back(one.sizes().vec());
  return out;
}

tensor_sizes sizes_or(const tensor_sizes& given, const process_group& group,
                      const at::Tensor& tensor) {
  if (!given.empty()) return given;
  return tensor_sizes(static_cast<std::size_t>(group.size()), tensor.sizes().vec());
}

std::vector<at::Tensor> empty_tensors(const tensor_sizes& sizes, const at::Tensor& like) {
  std::vector<at::Tensor> out;
  for (const auto& one : sizes) out.push_back(at::empty(one, like.options()));
  return out;
}

std::vector<at::Tensor> zero_tensors(const tensor_sizes& sizes, const at::Tensor& like) {
  std::vector<at::Tensor> out;
  for (const auto& one : sizes) out.push_back(at::zeros(one, like.options()));
  return out;
}

// What each rank's values are multiplied by in a sum. The other reductions have gradients that only
// some ranks get, which no transposed collective knows.
double factor_of(const char* name, const process_group& group, reduce_by op) {
  switch (op.op) {
    case reduce_op::sum: return 1;
    case reduce_op::avg: return 1.0 / group.size();
    case reduce_op::premul_sum: return op.factor;
    default:
      throw invalid_argument(
          fmt::format("{}: {} has no gradient here: SUM, AVG and PREMUL_SUM have. Call "
                      "troupe::{} on detached tensors",
                      name, groups::reduction_name(op.op), name));
  }
}

at::Tensor times(const at::Tensor& tensor, double factor) {
  return factor == 1 ? tensor : tensor.mul(factor);
}

std::vector<at::Tensor> times(std::vector<at::Tensor> tensors, double factor) {
  for (auto& one : tensors) one = times(one, factor);
  return tensors;
}

// Of all parts, in units of the first dimension.
std::int64_t rows_of(const at::Tensor& tensor, const char* name) {
  if (tensor.dim() == 0)
    throw invalid_argument(fmt::format("{}: a tensor without dimensions has no parts", name));
  return tensor.size(0);
}

std::vector<std::int64_t> with_rows(const at::Tensor& tensor, std::int64_t rows) {
  auto sizes = tensor.sizes().vec();
  if (sizes.empty()) sizes.push_back(1);
  sizes[0] = rows;
  return sizes;
}

}  // namespace

at::Tensor broadcast(const process_group& group, const at::Tensor& tensor, int src) {
  if (!group.member("broadcast")) return {};
  const auto out = copy_of(tensor);
  troupe::broadcast(group, out, src);
  record_collective("broadcast", {tensor}, {out}, [group, src](gradient_list gradients) {
    return std::vector{differentiable::reduce(group, gradients[0], src)};
  });
  return out;
}

at::Tensor all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op) {
  if (!group.member("all_reduce")) return {};
  const auto factor = factor_of("all_reduce", group, op);
  const auto out = copy_of(tensor);
  troupe::all_reduce(group, out, op);
  record_collective("all_reduce", {tensor}, {out}, [group, factor](gradient_list gradients) {
    return std::vector{times(differentiable::all_reduce(group, gradients[0]), factor)};
  });
  return out;
}

at::Tensor reduce(const process_group& group, const at::Tensor& tensor, int dst, reduce_by op) {
  if (!group.member("reduce")) return {};
  const auto factor = factor_of("reduce", group, op);
  const auto out = copy_of(tensor);
  troupe::reduce(group, out, dst, op);
  if (group.rank() != dst) out.zero_();
  record_collective("reduce", {tensor}, {out}, [group, dst, factor](gradient_list gradients) {
    return std::vector{times(differentiable::broadcast(group, gradients[0], dst), factor)};
  });
  return out;
}

std::vector<at::Tensor> all_gather(const process_group& group, const at::Tensor& tensor,
                                   const tensor_sizes& output_sizes) {
  if (!group.member("all_gather")) return {};
  const auto out = empty_tensors(sizes_or(output_sizes, group, tensor), tensor);
  troupe::all_gather(group, out, tensor.detach());
  record_collective("all_gather", {tensor}, out, [group](gradient_list gradients) {
    return std::vector{differentiable::reduce_scatter(group, gradients)};
  });
  return out;
}

at::Tensor all_gather_into_tensor(const process_group& group, const at::Tensor& tensor) {
  if (!group.member("all_gather_into_tensor")) return {};
  const auto rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const auto out = at::empty(with_rows(tensor, rows * group.size()), tensor.options());
  troupe::all_gather_into_tensor(group, out, tensor.detach());
  const auto sizes = tensor.sizes().vec();
  record_collective(
      "all_gather_into_tensor", {tensor}, {out}, [group, sizes](gradient_list gradients) {
        return std::vector{
            differentiable::reduce_scatter_tensor(group, gradients[0]).reshape(sizes)};
      });
  return out;
}

std::vector<at::Tensor> gather(const process_group& group, const at::Tensor& tensor, int dst,
                               const tensor_sizes& output_sizes) {
  if (!group.member("gather")) return {};
  const auto sizes = sizes_or(output_sizes, group, tensor);
  const bool root = group.rank() == dst;
  auto out = root ? empty_tensors(sizes, tensor) : std::vector<at::Tensor>();
  troupe::gather(group, tensor.detach(), out, dst);
  if (!root) out = zero_tensors(sizes, tensor);
  record_collective("gather", {tensor}, out, [group, dst](gradient_list gradients) {
    return std::vector{differentiable::scatter(group, gradients, dst)};
  });
  return out;
}

at::Tensor scatter(const process_group& group, const std::vector<at::Tensor>& tensors, int src) {
  if (!group.member("scatter")) return {};
  if (tensors.size() != static_cast<std::size_t>(group.size()))
    throw invalid_argument(fmt::format("scatter: {} tensors are not one for each of {} ranks",
                                       tensors.size(), group.size()));
  const auto& mine = tensors[static_cast<std::size_t>(group.rank())];
  const auto out = at::empty(mine.sizes(), mine.options());
  troupe::scatter(group, out, group.rank() == src ? detached(tensors) : std::vector<at::Tensor>(),
                  src);
  const auto sizes = sizes_of(tensors);
  record_collective("scatter", tensors, {out}, [group, src, sizes](gradient_list gradients) {
    return differentiable::gather(group, gradients[0], src, sizes);
  });
  return out;
}

at::Tensor reduce_scatter(const process_group& group, const std::vector<at::Tensor>& input_list,
                          reduce_by op) {
  if (!group.member("reduce_scatter")) return {};
  const auto factor = factor_of("reduce_scatter", group, op);
  if (input_list.size() != static_cast<std::size_t>(group.size()))
    throw invalid_argument(
        fmt::format("reduce_scatter: {} tensors are not one for each of {} ranks",
                    input_list.size(), group.size()));
  const auto& mine = input_list[static_cast<std::size_t>(group.rank())];
  const auto out = at::empty(mine.sizes(), mine.options());
  troupe::reduce_scatter(group, out, detached(input_list), op);
  const auto sizes = sizes_of(input_list);
  record_collective("reduce_scatter", input_list, {out},
                    [group, sizes, factor](gradient_list gradients) {
                      return times(differentiable::all_gather(group, gradients[0], sizes), factor);
                    });
  return out;
}

at::Tensor reduce_scatter_tensor(const process_group& group, const at::Tensor& input,
                                 reduce_by op) {
  if (!group.member("reduce_scatter_tensor")) return {};
  const auto factor = factor_of("reduce_scatter_tensor", group, op);
  const auto rows = rows_of(input, "reduce_scatter_tensor");
  if (rows % group.size() != 0)
    throw invalid_argument(
        fmt::format("reduce_scatter_tensor: {} rows cannot be divided equally among {} ranks", rows,
                    group.size()));
  const auto out = at::empty(with_rows(input, rows / group.size()), input.options());
  troupe::reduce_scatter_tensor(group, out, input.detach(), op);
  record_collective(
      "reduce_scatter_tensor", {input}, {out}, [group, factor](gradient_list gradients) {
        return std::vector{
            times(differentiable::all_gather_into_tensor(group, gradients[0]), factor)};
      });
  return out;
}

std::vector<at::Tensor> all_to_all(const process_group& group,
                                   const std::vector<at::Tensor>& input_tensor_list,
                                   const tensor_sizes& output_sizes) {
  if (!group.member("all_to_all")) return {};
  if (input_tensor_list.size() != static_cast<std::size_t>(group.size()))
    throw invalid_argument(fmt::format("all_to_all: {} tensors are not one for each of {} ranks",
                                       input_tensor_list.size(), group.size()));
  const auto sizes = sizes_of(input_tensor_list);
  const auto out = empty_tensors(output_sizes.empty() ? sizes : output_sizes, input_tensor_list[0]);
  troupe::all_to_all(group, out, detached(input_tensor_list));
  record_collective("all_to_all", input_tensor_list, out, [group, sizes](gradient_list gradients) {
    return differentiable::all_to_all(group, gradients, sizes);
  });
  return out;
}

at::Tensor all_to_all_single(const process_group& group, const at::Tensor& input,
                             const std::vector<std::int64_t>& output_split_sizes,
                             const std::vector<std::int64_t>& input_split_sizes) {
  if (!group.member("all_to_all_single")) return {};
  auto rows = rows_of(input, "all_to_all_single");
  if (!output_split_sizes.empty())
    rows = std::accumulate(output_split_sizes.begin(), output_split_sizes.end(), std::int64_t{0});
  if (rows < 0) throw invalid_argument("all_to_all_single: output_split_sizes are negative");
  const auto out = at::empty(with_rows(input, rows), input.options());
  troupe::all_to_all_single(group, out, input.detach(), output_split_sizes, input_split_sizes);
  record_collective("all_to_all_single", {input}, {out},
                    [group, output_split_sizes, input_split_sizes](gradient_list gradients) {
                      return std::vector{differentiable::all_to_all_single(
                          group, gradients[0], input_split_sizes, output_split_sizes)};
                    });
  return out;
}

}  // namespace troupe::differentiable
