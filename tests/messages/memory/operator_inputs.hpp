#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>

namespace troupe::test {

/// Makes a tensor over the given one's bytes.
using tensor_maker = std::function<at::Tensor(const at::Tensor&)>;

/// How many ways there are to choose inputs.
int input_recipes();

/// Arguments for an operator of the schema, in one of these ways: shapes, dtypes and numbers that
/// many operators take. `size` is that of a tensor's last dimension, where the recipe leaves it
/// open. `make` makes each tensor. Nothing if the operator wants what no recipe has.
std::optional<torch::jit::Stack> make_inputs(const c10::FunctionSchema& schema, int recipe,
                                             std::int64_t size, const tensor_maker& make);

}  // namespace troupe::test
