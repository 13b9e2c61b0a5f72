#include "troupe/actors/groups/prepared_call.hpp"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

// Can a backend use its memory as it is?
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

std::pair<const std::byte*, const std::byte*> extent(const at::Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  return {begin, begin + tensor.nbytes()};
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !a.is_alias_of(b)) return false;
  const auto [a_begin, a_end] = extent(a);
  const auto [b_begin, b_end] = extent(b);
  return a_begin < b_end && b_begin < a_end;
}

// Where an input may be its own output: see `operation`.
bool may_share(operation_kind kind) noexcept {
  return kind == operation_kind::reduce || kind == operation_kind::all_gather_into_tensor ||
         kind == operation_kind::reduce_scatter_tensor;
}

}  // namespace

void prepared_call::check(const at::Tensor& tensor) {
  const auto* const name = to_string(what_.kind);
  if (!tensor.defined()) throw invalid_argument(fmt::format("{}: a tensor is not defined", name));
  if (tensor.layout() != c10::kStrided)
    throw invalid_argument(fmt::format("{} takes no {} tensors", name, c10::str(tensor.layout())));
  const auto dtype = tensor.scalar_type();
  const auto device = tensor.device().type();
  if (what_.dtype == c10::ScalarType::Undefined) {
    what_.dtype = dtype;
    what_.device = device;
  }
  if (dtype != what_.dtype)
    throw invalid_argument(
        fmt::format("Invalid usage of tensors with different dtypes: {}: found {} and {}", name,
                    c10::toString(what_.dtype), c10::toString(dtype)));
  if (device != what_.device)
    throw invalid_argument(
        fmt::format("Invalid usage of tensors on different devices: {}: found {} and {}", name,
                    c10::DeviceTypeName(what_.device, true), c10::DeviceTypeName(device, true)));
}

void prepared_call::input(const at::Tensor& tensor) {
  check(tensor);
  if (is_plain(tensor)) {
    inputs_.push_back(tensor);
    return;
  }
  const at::NoGradGuard none;
  inputs_.push_back(tensor.resolve_conj().resolve_neg().contiguous());
}

void prepared_call::output(const at::Tensor& tensor, use how) {
  check(tensor);
  if (tensor.requires_grad() && tensor.is_leaf() && at::GradMode::is_enabled())
    throw invalid_argument(
        fmt::format("{} would write into a leaf tensor that requires gradients: detach it, or call "
                    "it where at::NoGradGuard is",
                    to_string(what_.kind)));
  results_.push_back(tensor);
  if (is_plain(tensor)) {
    outputs_.push_back(tensor);
    return;
  }
  if (at::has_internal_overlap(tensor) == at::MemOverlap::Yes)
    throw invalid_argument(
        fmt::format("{} would write into a tensor whose elements overlap", to_string(what_.kind)));
  const at::NoGradGuard none;
  if (how == use::updated)
    outputs_.push_back(tensor.resolve_conj().resolve_neg().contiguous());
  else
    outputs_.push_back(at::empty(tensor.sizes(), tensor.options()));
}

void prepared_call::check_overlaps() const {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (overlap(outputs_[i], outputs_[j]))
        throw invalid_argument(
            fmt::format("{}: outputs {} and {} overlap", to_string(what_.kind), j, i));
    if (may_share(what_.kind)) continue;
    for (std::size_t j = 0; j < inputs_.size(); ++j)
      if (overlap(outputs_[i], inputs_[j]))
        throw invalid_argument(
            fmt::format("{}: output {} and input {} overlap", to_string(what_.kind), i, j));
  }
}

operation& prepared_call::bind() noexcept {
  what_.inputs = {inputs_.data(), inputs_.size()};
  what_.outputs = {outputs_.data(), outputs_.size()};
  what_.input_splits = input_splits;
  what_.output_splits = output_splits;
  return what_;
}

void prepared_call::finish() {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (outputs_[i].is_same(results_[i])) {
      if (!results_[i].is_inference()) results_[i].unsafeGetTensorImpl()->bump_version();
      continue;
    }
    const at::NoGradGuard none;
    results_[i].copy_(outputs_[i]);
  }
}

}  // namespace troupe::groups
