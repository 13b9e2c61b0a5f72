#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace common {

/// A module's parameters, or their gradients, in the module's order.
using tensors = std::vector<at::Tensor>;

/// The memory of the parameters, for what knows no gradients.
tensors parameters_of(const torch::nn::Module& module);

/// The gradients of the parameters.
tensors gradients_of(const torch::nn::Module& module);

/// `values` become the parameters, without a copy; gradients go.
void adopt(torch::nn::Module& module, const tensors& values);

/// Throws troupe::invalid_argument, which says where they differ, unless `some` are as many as
/// `parameters` and of their shapes and types.
void require_like(const tensors& parameters, const tensors& some);

/// How many numbers the parameters of `module` are.
std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace common
