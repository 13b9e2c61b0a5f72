#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <functional>
#include <numeric>

namespace troupe::test {

/// A tensor of floats that claims to lie on a GPU, on a machine that need not have one. It can
/// be looked at, and not computed with.
inline at::Tensor on_pretended_gpu(at::IntArrayRef sizes, int index) {
  const auto count =
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<std::int64_t>());
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  auto* memory = new float[static_cast<std::size_t>(count) + 1]();
  c10::DataPtr data(
      memory, memory, [](void* p) { delete[] static_cast<float*>(p); },
      c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index)));
  c10::Storage storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                             static_cast<std::int64_t>(bytes),
                                                             std::move(data), nullptr, false));
  auto out = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                      c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                                      c10::scalarTypeToTypeMeta(c10::kFloat));
  out.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return out;
}

}  // namespace troupe::test
