#include "troupe/actors/rref/rref.hpp"

#include <ATen/core/Tensor.h>

namespace troupe::detail {

void backward(const at::Tensor& root, bool retain_graph) { root.backward({}, retain_graph); }

}  // namespace troupe::detail
