#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <cstddef>

#include "troupe/messages/memory/payload.hpp"

// Bytes of tensors from one device to another, by libtorch.
namespace troupe::detail {

/// GPUs that this process can use.
int gpu_count() noexcept;

c10::Device device_of(const memory_place& place) noexcept;

/// Where a tensor lies that may be sent.
memory_place place_of(const c10::Device& device) noexcept;

/// A copy in host memory of bytes on `device`, after what the current stream has in hand. Throws
/// c10::Error.
at::Tensor host_copy(const std::byte* data, std::size_t size, c10::Device device);

/// A storage with the same bytes on `device`. Throws c10::Error.
c10::Storage moved(const c10::Storage& from, c10::Device device);

}  // namespace troupe::detail
