#pragma once

#include <c10/core/Storage.h>

#include <optional>
#include <string>

#include "troupe/messages/tensor/device_ipc.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"
#include "troupe/messages/tensor/tensor_plan_internal.hpp"

namespace troupe::detail {

/// Bytes of a device that another process can open, and that nobody here writes to.
struct leased_bytes {
  c10::Storage keep;
  exported_memory where;
};

/// A storage of the tensor `of`, which lies on a device: where it lies if nobody else uses it,
/// otherwise as a copy on the device, which is there when `copies` have been waited for. Nothing:
/// it cannot be done, and `problem` says why.
std::optional<leased_bytes> lease_bytes(const planned_storage& storage, const table_entry& of,
                                        outgoing_copies& copies, std::string& problem);

}  // namespace troupe::detail
