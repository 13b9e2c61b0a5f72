#include "troupe/actors/tensors/slice.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

at::Tensor sliced(const at::Tensor& whole, const std::vector<slice>& which) {
  if (static_cast<std::size_t>(whole.dim()) < which.size())
    throw invalid_argument("a tensor of " + std::to_string(whole.dim()) +
                           " dimensions cannot be read by " + std::to_string(which.size()) +
                           " slices");
  const at::NoGradGuard no_grad;  // a write to the view counts as one to the tensor
  auto out = whole;
  std::int64_t dimension = 0;
  for (const auto& one : which) {
    if (one.step < 1)
      throw invalid_argument("a slice of dimension " + std::to_string(dimension) +
                             " has the step " + std::to_string(one.step) +
                             ", but must have 1 or more");
    const auto step = std::min(one.step, std::max<std::int64_t>(out.size(dimension), 1));
    out = out.slice(dimension++, one.begin, one.end, step);
  }
  return out;
}

at::Tensor copy_of_slices(const at::Tensor& whole, const std::vector<slice>& which) {
  const auto part = sliced(whole, which);
  const at::NoGradGuard no_grad;
  return part.detach().clone(at::MemoryFormat::Contiguous);
}

}  // namespace troupe::detail
