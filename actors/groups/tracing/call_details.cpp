#include "troupe/actors/groups/tracing/call_details.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "troupe/actors/groups/tracing/flight_recorder.hpp"

namespace troupe::groups {

std::string shapes_of(std::span<const at::Tensor> tensors) {
  std::string out;
  for (const auto& one : tensors)
    out += fmt::format("{}[{}]", out.empty() ? "" : ", ", fmt::join(one.sizes(), ", "));
  return out;
}

void call_details::add(std::uint64_t record, const operation& what) {
  auto made = std::make_shared<call_detail>();
  made->inputs = shapes_of(what.inputs);
  made->outputs = shapes_of(what.outputs);
  made->stack = c10::get_lazy_backtrace(1);
  const std::lock_guard lock(mutex_);
  all_.emplace(record, std::move(made));
  if (all_.size() > flight_recorder::capacity) all_.erase(all_.begin());
}

std::shared_ptr<const call_detail> call_details::find(std::uint64_t record) const {
  const std::lock_guard lock(mutex_);
  const auto at = all_.find(record);
  return at == all_.end() ? nullptr : at->second;
}

}  // namespace troupe::groups
