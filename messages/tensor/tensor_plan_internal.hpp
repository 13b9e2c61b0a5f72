#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>

// Which bytes of which storages a message carries.
namespace troupe::detail {

/// A tensor of the message: what it is and, once planned, where its bytes are.
struct table_entry {
  at::Tensor tensor;
  at::Tensor compacted;  ///< instead of its own, the bytes of a view without its gaps
  std::uint32_t storage = 0;
  std::int64_t offset = 0;  ///< in elements
  std::uint32_t parts[3] = {0, 0, 0};
  std::uint8_t part_count = 0;
  bool part = false;   ///< of another tensor
  bool given = false;  ///< it is the only one that refers to its storage, and will not be used
};

/// A strided tensor with elements, as a range of bytes of its storage.
struct byte_range {
  const c10::StorageImpl* storage = nullptr;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t bytes = 0;  ///< of its elements, those in the same place counted once
  std::uint32_t entry = 0;
};

/// A storage as it is sent: a range of a storage here, or packed pieces.
struct planned_storage {
  std::uint32_t entry = 0;  ///< one of the tensors that lie in it
  const std::byte* data = nullptr;
  std::int64_t sent = 0;  ///< bytes
  std::int64_t size = 0;  ///< bytes that the receiver makes of them
  at::Tensor packed;      ///< set: what `data` points into
  c10::SmallVector<std::uint32_t, 0> pieces;
};

using entry_list = c10::SmallVector<table_entry, 2>;
using range_list = c10::SmallVector<byte_range, 4>;
using storage_list = c10::SmallVector<planned_storage, 2>;

/// Decides what is sent: sorts `ranges`, fills `storages` and each entry's storage and offset.
void plan_storages(entry_list& entries, range_list& ranges, storage_list& storages);

}  // namespace troupe::detail
