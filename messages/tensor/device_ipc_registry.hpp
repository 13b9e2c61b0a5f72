#pragma once

#include <memory>

#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/tensor/device_ipc.hpp"

namespace troupe {

/// For devices of the type `type`, in this process. False: they have one. CUDA's has one by itself.
bool register_device_ipc(memory_place::kind type, std::shared_ptr<const device_ipc> how);

/// Null: memory of such devices is opened by no other process.
std::shared_ptr<const device_ipc> find_device_ipc(memory_place::kind type);

}  // namespace troupe
