#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::detail {

/// Memory of a parameter that others read while the parameter goes on: aliases of it, each in a
/// storage of its own. Who writes the parameter gives it a copy first, if there are such others.
///
/// libtorch's own lazy copies (c10/core/impl/COW.h, as of 2.11) will not do: who lets go of one
/// counts down and then takes a lock of the common context, which another who lets go of the last
/// at that moment has deleted in between. So there is one more counter here, and no lock.

/// An alias of the memory of `parameter`: same shape, dtype and device, nothing recorded; a copy
/// where the memory is not libtorch's usual kind. Meanwhile nobody may write the parameter, or call
/// this for it. Reading an alias needs no care, nor does its end; writing it in place would write
/// the parameter.
at::Tensor alias_of_memory(const at::Tensor& parameter);

/// Are there aliases? If not, what they have read comes before what the caller writes.
bool has_aliases(const c10::Storage& of) noexcept;

/// Gives the storage memory of its own, with the same content, if there are aliases: they keep the
/// old. Pre: as for `alias_of_memory`.
void leave_memory_to_aliases(const c10::Storage& of);

}  // namespace troupe::detail
