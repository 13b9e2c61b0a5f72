#pragma once

#include <c10/core/Allocator.h>

#include <functional>
#include <span>

namespace at {
class Tensor;
}

namespace troupe::groups {

/// Takes the memory of tensors that other ranks may still write after an operation has failed. It
/// is not used again before `is_over`: the tensors, and all that share their storage, get fresh
/// memory with what the old one had. (What an operation that failed was to write is undefined.)
/// Where there is no fresh memory they keep the old one, which nobody else gets, ever.
///
/// What is taken outlives its group, and is not given back when the process ends. `is_over` is
/// called by any thread that calls this or `release_quarantined`; it must not call either.
void quarantine(std::span<const at::Tensor> written, std::function<bool()> is_over) noexcept;

/// Keeps `memory` until `is_over`, in the same way.
void hold_memory(c10::DataPtr memory, std::function<bool()> is_over) noexcept;

/// Gives back all memory that nobody writes any more. Groups call it when they begin, fail and end.
/// Any thread.
void release_quarantined() noexcept;

}  // namespace troupe::groups
