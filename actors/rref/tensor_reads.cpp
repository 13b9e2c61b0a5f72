#include <ATen/core/Tensor.h>

#include "troupe/actors/rref/rref.hpp"
#include "troupe/actors/rref/tensor_reads.hpp"

namespace troupe::detail {

namespace {

// As `begin_call_on` makes it of such arguments.
template <auto F, class... Args>
bool serves() {
  using target = target_for<F, at::Tensor, Args...>;
  using parameters = typename target::template parameters<at::Tensor>;
  return invocation<target, at::Tensor, false, wire_for<parameters, Args...>>::registered;
}

}  // namespace

bool serves_tensor_reads() {
  return serves<&read_part, std::vector<slice>, call_options>() &&
         serves<&write_part, at::Tensor, std::vector<slice>, call_options>();
}

}  // namespace troupe::detail
