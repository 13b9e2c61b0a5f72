#include "troupe/actors/groups/coalescing.hpp"

#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>

#include "troupe/actors/groups/collective_call.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe {

namespace {

using groups::collective_call;
using groups::operation_kind;
using results = std::vector<at::Tensor>;

bool takes_many(operation_kind kind) noexcept {
  return kind == operation_kind::broadcast || kind == operation_kind::all_reduce ||
         kind == operation_kind::all_gather_into_tensor ||
         kind == operation_kind::reduce_scatter_tensor;
}

// Decided by what all ranks share. The factors of a premul_sum are each rank's own.
bool can_join(const groups::operation& one, const groups::operation& next) noexcept {
  return one.kind == next.kind && takes_many(one.kind) && one.dtype == next.dtype &&
         one.device == next.device && one.root == next.root && one.reduction == next.reduction &&
         one.reduction != reduce_op::premul_sum;
}

// The first error of works that have ended, and all that they have written.
void complete(groups::work_state& whole, const std::vector<future<results>>& parts) {
  results written;
  for (const auto& one : parts) {
    try {
      for (const auto& tensor : one.get()) written.push_back(tensor);
    } catch (...) {
      return whole.fail(std::current_exception());
    }
  }
  whole.complete(std::move(written));
}

}  // namespace

struct coalescing_manager::content {
  process_group group;
  std::vector<collective_call> calls{};

  void add(std::optional<collective_call>&& next) {
    if (!next) return;
    if (!calls.empty() && can_join(calls.back().call.what(), next->call.what()))
      calls.back().call.append(std::move(next->call));
    else
      calls.push_back(std::move(*next));
  }

  std::vector<collective_call> take() {
    auto out = std::exchange(calls, {});
    for (const auto& one : out) one.call.check_overlaps(one.group->rank());
    return out;
  }
};

coalescing_manager::coalescing_manager(process_group group)
    : content_(std::make_unique<content>(std::move(group))) {}
coalescing_manager::~coalescing_manager() = default;
coalescing_manager::coalescing_manager(coalescing_manager&&) noexcept = default;
coalescing_manager& coalescing_manager::operator=(coalescing_manager&&) noexcept = default;

void coalescing_manager::broadcast(const at::Tensor& tensor, int src) {
  content_->add(groups::broadcast_call(content_->group, tensor, src));
}
void coalescing_manager::all_reduce(const at::Tensor& tensor, reduce_by op) {
  content_->add(groups::all_reduce_call(content_->group, &tensor, 1, op));
}
void coalescing_manager::reduce(const at::Tensor& tensor, int dst, reduce_by op) {
  content_->add(groups::reduce_call(content_->group, tensor, dst, op));
}
void coalescing_manager::all_gather(const std::vector<at::Tensor>& tensor_list,
                                    const at::Tensor& tensor) {
  content_->add(groups::all_gather_call(content_->group, tensor_list, tensor));
}
void coalescing_manager::all_gather_into_tensor(const at::Tensor& output_tensor,
                                                const at::Tensor& input_tensor) {
  content_->add(groups::all_gather_into_call(content_->group, &output_tensor, &input_tensor, 1));
}
void coalescing_manager::gather(const at::Tensor& tensor,
                                const std::vector<at::Tensor>& gather_list, int dst) {
  content_->add(groups::gather_call(content_->group, tensor, gather_list, dst));
}
void coalescing_manager::scatter(const at::Tensor& tensor,
                                 const std::vector<at::Tensor>& scatter_list, int src) {
  content_->add(groups::scatter_call(content_->group, tensor, scatter_list, src));
}
void coalescing_manager::reduce_scatter(const at::Tensor& output,
                                        const std::vector<at::Tensor>& input_list, reduce_by op) {
  content_->add(groups::reduce_scatter_call(content_->group, output, input_list, op));
}
void coalescing_manager::reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input,
                                               reduce_by op) {
  content_->add(groups::reduce_scatter_tensor_call(content_->group, &output, &input, 1, op));
}
void coalescing_manager::all_to_all(const std::vector<at::Tensor>& output_tensor_list,
                                    const std::vector<at::Tensor>& input_tensor_list) {
  content_->add(groups::all_to_all_call(content_->group, output_tensor_list, input_tensor_list));
}
void coalescing_manager::all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                                           const std::vector<std::int64_t>& output_split_sizes,
                                           const std::vector<std::int64_t>& input_split_sizes) {
  content_->add(groups::all_to_all_single_call(content_->group, output, input, output_split_sizes,
                                               input_split_sizes));
}

std::size_t coalescing_manager::size() const noexcept { return content_->calls.size(); }

void coalescing_manager::run() {
  for (auto& one : content_->take()) one.group->run(one.call);
}

work coalescing_manager::start() {
  auto calls = content_->take();
  if (calls.empty()) return work();
  if (calls.size() == 1) return calls[0].group->start(std::move(calls[0].call));
  auto& group = *calls[0].group;
  std::vector<future<results>> parts;
  auto where = group.place_of(calls.back().call.what());
  for (auto& one : calls) {
    const auto started = group.start(std::move(one.call));
    where.sequence = started.sequence_number();
    parts.push_back(started.get_future());
  }
  const auto whole =
      std::make_shared<groups::work_state>(group.channel().driver(), std::move(where));
  whole->begin();
  // They run in order: when the last one has ended, all have.
  const auto last = parts.back();
  last.then([whole, parts = std::move(parts)](const future<results>&) { complete(*whole, parts); });
  return work(whole);
}

}  // namespace troupe
