#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <cstdint>

namespace at {
class Tensor;
}

namespace troupe::groups {

/// The elements of a contiguous tensor. Owns nothing.
struct tensor_view {
  std::byte* data = nullptr;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::int64_t count = 0;

  std::size_t element_bytes() const noexcept { return c10::elementSize(dtype); }
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count) * element_bytes(); }
};

/// For reading: leaves a lease, or a copy that was not made yet, as it is.
tensor_view read_view(const at::Tensor& tensor);
/// For writing: makes the memory the tensor's alone (rule 1).
tensor_view written_view(const at::Tensor& tensor);

}  // namespace troupe::groups
