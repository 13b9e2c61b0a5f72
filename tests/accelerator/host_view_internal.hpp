#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>

namespace troupe::test::accelerator {

// The same elements as a CPU tensor over the second mapping, which keeps nothing alive. A CPU
// tensor: itself.
at::Tensor host_view(const at::Tensor& t);

// The work of a kernel, below autograd.
template <class Work>
std::function<void()> kernel(Work work) {
  return [work = std::move(work)]() mutable {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    work();
  };
}

}  // namespace troupe::test::accelerator
