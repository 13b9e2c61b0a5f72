#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>

#include "troupe/actors/groups/process_group/process_group.hpp"

namespace at {
class Tensor;
}

namespace troupe {

/// A tensor in memory that is registered with the group's connections for `device`: all ranks call
/// it, in the same order among the group's collectives, with the same sizes and dtype, each with
/// its own device. NCCL moves such tensors without copies of its own, by copy engines where
/// `nccl.cta_policy` is zero, and adds half and bfloat16 in float32 on the way (symmetric memory,
/// NCCL 2.27 and later). Its elements are not initialised. Freeing it waits for the device.
///
/// Throws invalid_argument where the group has no backend that registers memory for that device, or
/// NCCL is too old; transport_error; what a collective throws. Not defined on a node that is not in
/// the group.
at::Tensor empty_symmetric(const process_group& group, c10::IntArrayRef sizes,
                           c10::ScalarType dtype, c10::Device device);

}  // namespace troupe
