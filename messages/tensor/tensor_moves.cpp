#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "troupe/messages/tensor/tensor_moves.hpp"

namespace troupe::detail {

namespace {

at::Tensor bytes_at(const void* data, std::size_t size, c10::Device device) {
  return at::from_blob(const_cast<void*>(data), {static_cast<std::int64_t>(size)},
                       at::TensorOptions().dtype(c10::kByte).device(device));
}

}  // namespace

int gpu_count() noexcept {
  if (!c10::impl::hasDeviceGuardImpl(c10::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::kCUDA)->deviceCount();
}

c10::Device device_of(const memory_place& place) noexcept {
  return place.where == memory_place::kind::cuda ? c10::Device(c10::kCUDA, place.device)
                                                 : c10::Device(c10::kCPU);
}

memory_place place_of(const c10::Device& device) noexcept {
  if (!device.is_cuda()) return {};
  return {memory_place::kind::cuda, static_cast<std::int8_t>(device.index())};
}

at::Tensor host_copy(const std::byte* data, std::size_t size, c10::Device device) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return bytes_at(data, size, device).to(c10::kCPU);
}

c10::Storage moved(const c10::Storage& from, c10::Device device) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto size = static_cast<std::int64_t>(from.nbytes());
  const auto out = at::empty({size}, at::TensorOptions().dtype(c10::kByte).device(device));
  if (size > 0) out.copy_(bytes_at(from.data(), from.nbytes(), from.device()));
  return out.storage();
}

}  // namespace troupe::detail
