#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/view_as_real.h>

// What the steps of several optimizers begin with.
namespace troupe::detail {

/// The two real numbers of each complex one, which are stepped as parameters of their own, as
/// PyTorch's optimizers do; shares the memory.
inline at::Tensor real_view(const at::Tensor& x) {
  return x.is_complex() ? at::view_as_real(x) : x;
}

/// What is descended by, in real numbers: the gradient, or its negative to maximize, plus
/// `weight_decay` times the parameter. Shares the gradient's memory where nothing is changed.
inline at::Tensor descent(const at::Tensor& parameter, const at::Tensor& gradient, bool maximize,
                          double weight_decay) {
  auto out = maximize ? gradient.neg() : gradient;
  if (weight_decay != 0) out = out.add(parameter, weight_decay);
  return real_view(out.resolve_conj());
}

}  // namespace troupe::detail
