#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "tests/autograd/graphs/program_generator.hpp"

namespace troupe::test {

/// What a program computes on one thread, with libtorch's own backward passes.
struct local_result {
  std::vector<at::Tensor> values;     ///< of the parameters
  std::vector<at::Tensor> gradients;  ///< by parameter; undefined: none
  std::vector<at::Tensor> roots;      ///< their values
  /// Which roots each pass has; none that requires no gradient.
  std::vector<std::vector<std::uint32_t>> passes;
  /// Of how many terms a gradient is a sum, at the most, in one pass. Two terms have one sum.
  std::size_t most_terms = 0;
  /// The roots of each pass depend on all messages that are sent.
  bool uses_all = true;
};

/// Throws std::domain_error for a program without a gradient. `values`: of the parameters, empty
/// for the program's own.
local_result run_locally(const random_program& program, std::vector<at::Tensor> values = {});

}  // namespace troupe::test
