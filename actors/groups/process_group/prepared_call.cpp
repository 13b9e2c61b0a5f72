#include "troupe/actors/groups/process_group/prepared_call.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <optional>
#include <tuple>

#include "troupe/actors/groups/process_group/tensor_overlap.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

// Can a backend use its memory as it is?
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor dense(const at::Tensor& tensor) {
  return tensor.resolve_conj().resolve_neg().contiguous();
}

// Does `tensor` belong to a leaf that requires gradients?
bool is_parameter(const at::Tensor& tensor) {
  if (!tensor.requires_grad()) return false;
  return tensor.is_leaf() || (tensor.is_view() && tensor._base().is_leaf());
}

const std::byte* begin_of(const at::Tensor& tensor) {
  return static_cast<const std::byte*>(tensor.const_data_ptr());
}

}  // namespace

void prepared_call::check(const at::Tensor& tensor) {
  const auto* const name = to_string(what_.kind);
  if (!tensor.defined()) throw invalid_argument(fmt::format("{}: a tensor is not defined", name));
  if (tensor.layout() != c10::kStrided)
    throw invalid_argument(fmt::format("{} takes no {} tensors", name, c10::str(tensor.layout())));
  if (tensor.is_quantized())
    throw invalid_argument(
        fmt::format("{} takes no quantized tensors: give it their int_repr()", name));
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
  if (device == c10::DeviceType::CPU) [[likely]]
    return;
  const auto& first = inputs_.empty() ? outputs_ : inputs_;
  if (!first.empty() && first[0].device() != tensor.device())
    throw invalid_argument(
        fmt::format("Invalid usage of tensors on different devices: {}: found {} and {}", name,
                    first[0].device().str(), tensor.device().str()));
}

void prepared_call::input(const at::Tensor& tensor) {
  check(tensor);
  strided_ = strided_ || !is_plain(tensor);
  inputs_.push_back(tensor);
}

void prepared_call::output(const at::Tensor& tensor, use how) {
  check(tensor);
  if (at::GradMode::is_enabled() && is_parameter(tensor))
    throw invalid_argument(
        fmt::format("{} would write into a leaf tensor that requires gradients, or a view of one: "
                    "detach it, or call it where at::NoGradGuard is",
                    to_string(what_.kind)));
  if (!is_plain(tensor)) {
    strided_ = true;
    if (overlaps_itself(tensor))
      throw invalid_argument(fmt::format("{} would write into a tensor whose elements overlap",
                                         to_string(what_.kind)));
  }
  results_.push_back(tensor);
  outputs_.push_back(tensor);
  uses_.push_back(how);
}

// Where an input may be its own output: see `operation`. Of others a backend would read what it has
// written.
bool prepared_call::may_share(const at::Tensor& output, const at::Tensor& input, int rank) const {
  switch (what_.kind) {
    case operation_kind::reduce: return begin_of(output) == begin_of(input);
    case operation_kind::all_gather_into_tensor:
      return begin_of(input) == begin_of(output) + static_cast<std::size_t>(rank) * input.nbytes();
    case operation_kind::reduce_scatter_tensor:
      return begin_of(output) == begin_of(input) + static_cast<std::size_t>(rank) * output.nbytes();
    default: return false;
  }
}

bool prepared_call::are_at_odds(std::size_t output, std::size_t other, bool is_input,
                                int rank) const {
  const auto& out = outputs_[output];
  if (!is_input) return overlap(out, outputs_[other]);
  const auto& in = inputs_[other];
  // Of those that are not plain there are copies before anything is written: too early where an
  // operation reads what one writes that was joined to it.
  const bool direct = (is_plain(out) && is_plain(in)) || (joined_ && output != other);
  return direct && overlap(out, in) && (output != other || !may_share(out, in, rank));
}

// The error is of the first output, and names other outputs before inputs.
void prepared_call::check_overlaps(int rank) const {
  using pair = std::tuple<std::size_t, bool, std::size_t>;  // output, is the other an input, other
  std::optional<pair> first;
  for_each_meeting({outputs_.data(), outputs_.size()}, {inputs_.data(), inputs_.size()},
                   [&](std::size_t output, std::size_t other, bool is_input) {
                     const pair met(output, is_input, other);
                     if (first && *first < met) return;
                     if (are_at_odds(output, other, is_input, rank)) first = met;
                   });
  if (!first) return;
  const auto [output, is_input, other] = *first;
  if (!is_input)
    throw invalid_argument(
        fmt::format("{}: outputs {} and {} overlap", to_string(what_.kind), other, output));
  throw invalid_argument(fmt::format(
      "{}: output {} and input {} overlap, and not as this rank's own part of the other",
      to_string(what_.kind), output, other));
}

void prepared_call::append(prepared_call&& other) {
  joined_ = true;
  strided_ = strided_ || other.strided_;
  for (auto& one : other.inputs_) inputs_.push_back(std::move(one));
  for (auto& one : other.outputs_) outputs_.push_back(std::move(one));
  for (auto& one : other.results_) results_.push_back(std::move(one));
  for (const auto one : other.uses_) uses_.push_back(one);
}

operation& prepared_call::bind() noexcept {
  what_.inputs = {inputs_.data(), inputs_.size()};
  what_.outputs = {outputs_.data(), outputs_.size()};
  what_.input_splits = input_splits;
  what_.output_splits = output_splits;
  return what_;
}

void prepared_call::make_dense() {
  if (steps_) [[unlikely]] {
    steps_->begin({outputs_.data(), outputs_.size()});
    results_ = outputs_;
  }
  if (!strided_) [[likely]]
    return;
  strided_ = false;
  const at::NoGradGuard none;
  for (auto& one : inputs_)
    if (!is_plain(one)) one = dense(one);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    auto& one = outputs_[i];
    if (is_plain(one)) continue;
    one = uses_[i] == use::updated ? dense(one) : at::empty(one.sizes(), one.options());
  }
}

void prepared_call::move_to_host() {
  const at::NoGradGuard none;
  for (auto& one : inputs_) one = one.to(c10::kCPU);
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    auto& one = outputs_[i];
    one = uses_[i] == use::updated ? one.to(c10::kCPU)
                                   : at::empty(one.sizes(), one.options().device(c10::kCPU));
  }
}

c10::Device prepared_call::device() const {
  return (inputs_.empty() ? outputs_ : inputs_)[0].device();
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
  if (steps_) [[unlikely]] {
    results_ = {steps_->end({outputs_.data(), outputs_.size()})};
  }
}

}  // namespace troupe::groups
