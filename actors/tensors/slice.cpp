#include "troupe/actors/tensors/slice.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <string>

#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

at::Tensor sliced(const at::Tensor& whole, const std::vector<slice>& which) {
  if (static_cast<std::size_t>(whole.dim()) < which.size())
    throw invalid_argument("a tensor of " + std::to_string(whole.dim()) +
                           " dimensions cannot be read by " + std::to_string(which.size()) +
                           " slices");
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto out = whole;
  std::int64_t dimension = 0;
  for (const auto& one : which) {
    if (one.step < 1)
      throw invalid_argument("a slice of dimension " + std::to_string(dimension) +
                             " has the step " + std::to_string(one.step) +
                             ", but must have 1 or more");
    out = out.slice(dimension++, one.begin, one.end, one.step);
  }
  return out;
}

at::Tensor copy_of_slices(const at::Tensor& whole, const std::vector<slice>& which) {
  const auto part = sliced(whole, which);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return part.clone(at::MemoryFormat::Contiguous);
}

}  // namespace troupe::detail
