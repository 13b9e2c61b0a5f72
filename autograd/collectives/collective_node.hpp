#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace troupe::autograd::detail {

/// Computes the gradients of a collective's inputs, an undefined one for whatever needs none. Gets
/// a gradient for each output, zeros where nothing has used it.
using transposed_collective =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& gradients)>;

/// `outputs` become what a collective has made of `inputs` in the graph of this rank: a backward
/// pass that reaches any of them calls `transposed`. Also if no input requires a gradient here:
/// other ranks' may, and a pass needs all ranks. Does nothing where gradients are disabled, and for
/// dtypes that have none.
void record_collective(const char* name, const std::vector<at::Tensor>& inputs,
                       const std::vector<at::Tensor>& outputs, transposed_collective transposed);

}  // namespace troupe::autograd::detail
