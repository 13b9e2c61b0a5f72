#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "memory_internal.hpp"

namespace troupe::test::accelerator {

namespace {

std::mutex mutex;
std::map<const std::byte*, std::size_t> blocks;

void free_pinned(void* at) {
  {
    const std::lock_guard lock(mutex);
    blocks.erase(static_cast<const std::byte*>(at));
  }
  std::free(at);
}

class allocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(std::size_t size) override {
    constexpr std::size_t alignment = 64;
    const auto rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
    auto* const at = std::aligned_alloc(alignment, rounded);
    TORCH_CHECK(at, "no memory of ", size, " bytes");
    const std::lock_guard lock(mutex);
    blocks[static_cast<const std::byte*>(at)] = rounded;
    ++count().pinned;
    return {at, at, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t size) const override {
    default_copy_data(to, from, size);
  }
};

}  // namespace

c10::Allocator& pinned_allocator() {
  static auto* const one = new allocator;
  return *one;
}

bool is_pinned(const void* at) noexcept {
  const auto* const byte = static_cast<const std::byte*>(at);
  const std::lock_guard lock(mutex);
  const auto after = blocks.upper_bound(byte);
  if (after == blocks.begin()) return false;
  const auto& [begin, size] = *std::prev(after);
  return byte < begin + size;
}

}  // namespace troupe::test::accelerator
