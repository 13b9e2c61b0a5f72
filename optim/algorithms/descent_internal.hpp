#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/view_as_real.h>

// The beginning of the steps of several optimizers.
namespace troupe::detail {

/// A view of complex numbers as pairs of real numbers; real tensors as they are. PyTorch's
/// optimizers too step the real and the imaginary part of a number as two parameters.
inline at::Tensor real_view(const at::Tensor& x) {
  return x.is_complex() ? at::view_as_real(x) : x;
}

/// The direction to descend, in real numbers: the gradient, or its negative to maximize, plus
/// `weight_decay` times the parameter. Shares the gradient's memory if nothing changes.
inline at::Tensor descent(const at::Tensor& parameter, const at::Tensor& gradient, bool maximize,
                          double weight_decay) {
  auto out = maximize ? gradient.neg() : gradient;
  if (weight_decay != 0) out = out.add(parameter, weight_decay);
  return real_view(out.resolve_conj());
}

}  // namespace troupe::detail
