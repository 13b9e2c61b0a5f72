#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tests/autograd/graphs/program_generator.hpp"

namespace troupe::test {

/// What a step computes. Values stay about as large as its operands. `write_first` writes into its
/// operand if it `owns_first`.
at::Tensor compute(const random_program& program, const step& what, std::vector<at::Tensor> xs,
                   bool owns_first);

/// The scalar that a result of the main block becomes.
at::Tensor as_root(const at::Tensor& result);

/// The values of a parameter, the same each time.
at::Tensor values_of(const random_program& program, std::size_t parameter);

}  // namespace troupe::test
