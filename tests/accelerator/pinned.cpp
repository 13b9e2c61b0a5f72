#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "memory_internal.hpp"

namespace troupe::test::accelerator {

namespace {

std::mutex mutex;
std::map<const std::byte*, std::size_t> blocks;

// As libtorch's for CUDA, whose allocations are named by blocks of its own, not by their address.
struct block {
  void* at;
};

void free_pinned(void* context) {
  const std::unique_ptr<block> one(static_cast<block*>(context));
  {
    const std::lock_guard lock(mutex);
    blocks.erase(static_cast<const std::byte*>(one->at));
  }
  std::free(one->at);
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
    return {at, new block{at}, &free_pinned, c10::Device(c10::kCPU)};
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
