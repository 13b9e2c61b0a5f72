#include "troupe/optim/shard/snapshot.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include "troupe/optim/shard/shared_memory.hpp"
#include "troupe/optim/shard/storage_lock.hpp"

namespace troupe {

namespace {

// The gradient of the alias is that of the parameter.
struct alias_of_parameter : torch::autograd::Function<alias_of_parameter> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& parameter) {
    return detail::alias_of_memory(parameter);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

}  // namespace

at::Tensor snapshot(const at::Tensor& parameter) {
  if (!parameter.defined()) throw invalid_argument("a snapshot of an undefined tensor");
  const detail::storage_lock lock({parameter}, detail::storage_lock::mode::exclude_writers);
  if (!parameter.has_storage() || parameter.layout() != c10::kStrided) return parameter.clone();
  return alias_of_parameter::apply(parameter);
}

at::Tensor snapshot(const rref<at::Tensor>& parameter) { return snapshot(parameter.local_value()); }

}  // namespace troupe
