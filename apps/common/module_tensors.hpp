#pragma once

#include <torch/nn/module.h>

#include <vector>

namespace common {

/// A module's parameters, or their gradients, in the module's order.
using tensors = std::vector<at::Tensor>;

/// The parameters, sharing their memory, without autograd.
tensors parameters_of(const torch::nn::Module& module);

/// The gradients of the parameters.
tensors gradients_of(const torch::nn::Module& module);

/// Makes `values` the parameters, without a copy, and removes the gradients.
void adopt(torch::nn::Module& module, const tensors& values);

/// Throws troupe::invalid_argument, which says where they differ, unless `some` has as many tensors
/// as `parameters`, of the same shapes and types.
void require_like(const tensors& parameters, const tensors& some);

/// The number of elements of all parameters of `module`.
std::int64_t count_parameters(const torch::nn::Module& module);

}  // namespace common
