#include "troupe/messages/envelope/frame.hpp"

#include <array>
#include <cstring>
#include <new>

namespace troupe {

namespace {

constexpr std::align_val_t alignment{16};

std::byte* allocate(std::size_t capacity) {
  return static_cast<std::byte*>(::operator new(capacity, alignment));
}

void deallocate(std::byte* data) noexcept { ::operator delete(data, alignment); }

// A thread's spare small buffers. Plain data with a flag, so that frames dropped while the thread's
// other thread-locals are destroyed still find a valid state.
struct cache {
  static constexpr std::size_t limit = 64;
  std::array<std::byte*, limit> spare;
  std::size_t count = 0;
  bool closed = false;

  ~cache() {
    closed = true;
    while (count > 0) deallocate(spare[--count]);
  }
};

thread_local cache local;

}  // namespace

frame::frame(std::size_t capacity)
    : capacity_(capacity < small_capacity ? small_capacity : capacity) {
  if (capacity_ == small_capacity && local.count > 0)
    data_ = local.spare[--local.count];
  else
    data_ = allocate(capacity_);
}

frame::frame(std::span<const std::byte> bytes) : frame(bytes.size()) {
  if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  size_ = bytes.size();
}

void frame::release() noexcept {
  if (capacity_ == small_capacity && !local.closed && local.count < cache::limit)
    local.spare[local.count++] = data_;
  else
    deallocate(data_);
  data_ = nullptr;
}

}  // namespace troupe
