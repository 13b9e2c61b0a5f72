#pragma once

#include <c10/core/Allocator.h>

#include <memory>

#include "troupe/actors/groups/nccl/nccl_communicator.hpp"

namespace troupe::groups::nccl {

/// Memory of NCCL's on `device`, registered with a communicator: all ranks call it. It is freed in
/// the background, when nothing on the device uses it. Throws invalid_argument where NCCL is too
/// old, transport_error, what `until` says.
c10::DataPtr make_symmetric_window(const std::shared_ptr<nccl_communicator>& on, std::size_t bytes,
                                   c10::Device device, const patience& until);

}  // namespace troupe::groups::nccl
