#pragma once

#include <torch/csrc/autograd/custom_function.h>

namespace troupe::test {

/// Throws on its way back: "no way back".
struct refusing : torch::autograd::Function<refusing> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list) {
    throw std::domain_error("no way back");
  }
};
inline at::Tensor one_way(const at::Tensor& x) { return refusing::apply(x); }

}  // namespace troupe::test
