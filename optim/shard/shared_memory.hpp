#pragma once

#include <ATen/core/Tensor.h>

// Memory of a parameter that snapshots share with it: aliases, each in a storage of its own. A
// writer of the parameter first gives it a copy of the memory, if there are aliases, and leaves the
// old memory to these (copy on write).
//
// libtorch's own lazy clones (c10/core/impl/COW.h, as of 2.11) cannot be used: an owner that lets
// go decrements the count and then takes a lock of the shared context, which another owner that let
// go of the last reference may have deleted in between. So there is a count of our own here, and no
// lock.
namespace troupe::detail {

/// An alias of the memory of `parameter`: same shape, dtype and device, without autograd; a copy if
/// the memory is not of libtorch's usual kind. The caller excludes writers of the parameter and
/// other calls for it (storage_lock::mode::exclude_writers). An alias may be read and destroyed
/// without a lock; whoever writes it in place writes the parameter.
at::Tensor alias_of_memory(const at::Tensor& parameter);

/// Are there aliases? If not, all that they have read happened before this returns.
bool has_aliases(const c10::Storage& of) noexcept;

/// Gives the storage memory of its own with the same content if there are aliases, which keep the
/// old memory. The caller excludes others as for `alias_of_memory`. Throws what the allocation of
/// the copy throws, and then changes nothing.
void leave_memory_to_aliases(const c10::Storage& of);

}  // namespace troupe::detail
