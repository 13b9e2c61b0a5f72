#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>

#include <cstddef>

namespace troupe::test::accelerator {

// Allocates on the current device, for its current stream.
c10::Allocator& device_allocator();

// The block that begins at `context` is used by work on `stream`, too.
void record_use(void* context, const c10::Stream& stream);

// -1: not an address of device memory.
int device_of(const void* pointer) noexcept;

}  // namespace troupe::test::accelerator
