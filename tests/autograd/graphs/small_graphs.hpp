#pragma once

#include <torch/types.h>

#include <troupe/autograd.hpp>

// Leaves, and functions to call on other nodes, of which tests make small graphs.
namespace troupe::test {

inline at::Tensor leaf(double value, std::int64_t n = 3) {
  return torch::full({n}, value, torch::requires_grad().dtype(torch::kDouble));
}

/// What a gradient is compared with.
inline at::Tensor all(double value, std::int64_t n = 3) {
  return torch::full({n}, value, torch::kDouble);
}

inline at::Tensor twice(const at::Tensor& x) { return 2 * x; }
inline at::Tensor multiply(const at::Tensor& x, const at::Tensor& y) { return x * y; }

/// A parameter of whichever node it is asked on.
inline rref<at::Tensor> own_weight(double value) { return this_node().make_rref(leaf(value)); }
inline at::Tensor times_weight(const at::Tensor& x, const rref<at::Tensor>& w) {
  return x * w.local_value();
}

/// Its gradient in a context; for its owner.
inline at::Tensor gradient_here(std::uint64_t context, const rref<at::Tensor>& of) {
  return autograd::get_gradients(this_node(), context)[of.local_value()];
}

}  // namespace troupe::test
