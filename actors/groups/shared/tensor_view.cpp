#include "troupe/actors/groups/shared/tensor_view.hpp"

#include <ATen/core/Tensor.h>

namespace troupe::groups {

tensor_view read_view(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(const_cast<void*>(tensor.const_data_ptr())), tensor.scalar_type(),
          tensor.numel()};
}

tensor_view written_view(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.scalar_type(), tensor.numel()};
}

}  // namespace troupe::groups
