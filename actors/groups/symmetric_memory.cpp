#include "troupe/actors/groups/symmetric_memory.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe {

at::Tensor empty_symmetric(const process_group& group, c10::IntArrayRef sizes,
                           c10::ScalarType dtype, c10::Device device) {
  auto* const in = group.member("empty_symmetric");
  if (!in) return {};
  std::size_t bytes = c10::elementSize(dtype);
  for (const auto one : sizes) {
    if (one < 0) throw invalid_argument("empty_symmetric: a size is negative");
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(one), &bytes))
      throw invalid_argument("empty_symmetric: the sizes are out of range");
  }
  auto memory = std::make_shared<c10::DataPtr>(
      in->allocate_symmetric(std::max<std::size_t>(bytes, 1), device));
  auto* const data = memory->get();
  return at::from_blob(
      data, sizes, [memory = std::move(memory)](void*) mutable { memory.reset(); },
      at::TensorOptions().dtype(dtype).device(device), device);
}

}  // namespace troupe
