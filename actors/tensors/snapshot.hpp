#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <shared_mutex>
#include <vector>

#include "troupe/actors/tensors/slice.hpp"

// Tensors as they were at one moment, whatever is written to them later.
namespace troupe::detail {

/// Memory with what is in the storage of `of` now. It is the same memory until somebody writes to
/// the storage, who then writes to a copy; memory that cannot be shared is copied now. Nobody may
/// write at the same time. Null for tensors that are not strided or not in host memory, which
/// cannot be kept so.
c10::Storage keep_storage(const at::Tensor& of);

/// A tensor like `like`, without gradients, in other memory: that of a kept storage.
at::Tensor tensor_in(const c10::Storage& memory, const at::Tensor& like);

/// The tensor as it is now, without gradients: by `keep_storage`, or else a copy.
at::Tensor snapshot_of(const at::Tensor& live);

struct tensor_version {
  at::Tensor tensor;
  std::uint64_t version = 0;  ///< how often it was committed
  bool whole = true;          ///< or it is just the slices
};

/// Tensors of this process that are updated in place while others read them. From `begin_update`
/// until `commit`, whoever reads by `read_version` gets the tensor as it was before, whole. All
/// views of one storage are updated together. Thread-safe.
///
/// Throws invalid_argument: an update is under way already, or the tensor cannot be kept.
void begin_update(const at::Tensor& live);
/// Returns the new version. Throws invalid_argument: no update is under way.
std::uint64_t commit(const at::Tensor& live);

/// The tensor as it was committed last, or as it is now if it is not being updated: all of it, or
/// its slices, where the rest would have to be copied for nothing. Throws invalid_argument: the
/// slices do not fit, or the tensor was resized during the update.
tensor_version read_version(const at::Tensor& live, const std::vector<slice>& which = {});

/// While it lives, nobody keeps the tensor: what is written to it meanwhile goes into its own
/// memory. Several may write at once.
class writing {
public:
  explicit writing(const at::Tensor& to);

private:
  std::shared_lock<std::shared_mutex> lock_;
};

}  // namespace troupe::detail
