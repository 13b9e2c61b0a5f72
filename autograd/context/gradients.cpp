#include "troupe/autograd/context/gradients.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace troupe::autograd {

namespace {

// May it be changed in place, because no other tensor shares its memory?
bool is_alone(const at::Tensor& x) {
  return x.use_count() == 1 && x.layout() == c10::kStrided && x.has_storage() &&
         x.storage().use_count() == 1 && x.is_non_overlapping_and_dense();
}

}  // namespace

void gradients::add(const at::Tensor& of, at::Tensor&& gradient) {
  if (!gradient.defined()) return;
  auto& place = all_[of.unsafeGetTensorImpl()];
  place.of = of;
  auto& held = place.gradient;
  const bool differentiable = at::GradMode::is_enabled();
  if (!held.defined()) {
    // Memory that another tensor shares may be written to through that one.
    held = differentiable || is_alone(gradient) ? std::move(gradient) : gradient.clone();
  } else if (!differentiable && is_alone(held)) {
    held.add_(gradient);
  } else if (held.is_sparse() && !gradient.is_sparse()) {
    held = at::add(gradient, held);
  } else {
    held = at::add(held, gradient);
  }
}

namespace detail {

void add_to_grad(const at::Tensor& leaf, at::Tensor&& gradient) {
  // AccumulateGrad takes over a gradient that has one reference. Gradients that arrived in one
  // message may still be views of one storage, to which the next pass would then add twice.
  torch::autograd::variable_list one;
  if (at::GradMode::is_enabled() || is_alone(gradient))
    one.push_back(std::move(gradient));
  else
    one.push_back(gradient.clone());
  (*torch::autograd::impl::grad_accumulator(leaf))(std::move(one));
}

}  // namespace detail

}  // namespace troupe::autograd
