#pragma once

#include <memory>

#include "troupe/messages/tensor/device_ipc.hpp"

namespace troupe::detail {

/// By the driver's library, which is opened here. Null: it is not there, or too old.
std::shared_ptr<const device_ipc> make_cuda_ipc(const char* library = "libcuda.so.1");

}  // namespace troupe::detail
