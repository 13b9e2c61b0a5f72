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

c10::Allocator& pinned_allocator();
bool is_pinned(const void* at) noexcept;

// The block that `device` lies in, and where that is in the file of this process's devices.
struct block_place {
  int file = -1;
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t offset = 0;  // of `device` in the block
};
block_place find_block(const void* device);

// The same in memory of other processes. Null, -1: it is in none.
std::byte* foreign_host_pointer(const void* device) noexcept;
int foreign_device_of(const void* pointer) noexcept;

}  // namespace troupe::test::accelerator
