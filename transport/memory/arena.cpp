#include "troupe/transport/memory/arena.hpp"

#include <c10/core/CPUAllocator.h>
#include <unistd.h>

#include <mutex>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/memory/arena_blocks.hpp"
#include "troupe/transport/memory/arena_table.hpp"
#include "troupe/transport/memory/fork_guard.hpp"
#include "troupe/transport/memory/small_blocks.hpp"

namespace troupe::transport {

namespace {

constinit std::atomic<arena*> installed{nullptr};
constinit std::atomic<small_blocks*> installed_small{nullptr};  // its

// For libtorch's profiles. Asking whether there is one costs as much as an allocation does, so
// blocks that are freed before the first profile are not asked about: it would not know them.
constinit std::atomic<bool> ever_reported{false};

void report_allocation(void* data, std::size_t n) {
  if (!c10::memoryProfilingEnabled()) [[likely]]
    return;
  ever_reported.store(true, std::memory_order_relaxed);
  c10::profiledCPUMemoryReporter().New(data, n);
}

void report_release(void* data) {
  if (ever_reported.load(std::memory_order_relaxed) && c10::memoryProfilingEnabled()) [[unlikely]]
    c10::profiledCPUMemoryReporter().Delete(data);
}

}  // namespace

arena::arena(std::unique_ptr<arena_blocks> blocks, std::size_t smallest)
    : blocks_(std::move(blocks)),
      small_(blocks_->small()),
      base_(blocks_->memory().base()),
      size_(blocks_->memory().size()),
      smallest_(smallest > 0 ? smallest : 1) {}

std::unique_ptr<arena> arena::make(arena_options options, std::string& why_not) {
  return make(options, false, why_not);
}

std::unique_ptr<arena> arena::make(arena_options options, bool caches, std::string& why_not) {
  auto blocks = arena_blocks::make(options, caches, why_not);
  if (!blocks) return nullptr;
  std::unique_ptr<arena> made(new arena(std::move(blocks), options.smallest));
  if (::getentropy(made->id_.data(), made->id_.size()) != 0) {
    why_not = "the system gives no random bytes";
    return nullptr;
  }
  return made;
}

arena::~arena() {
  // The owners of these blocks will free them some day.
  if (fork_guard::off() || blocks_->count().in_use > 0) static_cast<void>(blocks_.release());
}

c10::DataPtr arena::allocate(std::size_t n) {
  const c10::Device device(c10::DeviceType::CPU);
  if (!fork_guard::off()) [[likely]] {
    std::byte* data = nullptr;
    if (n >= smallest_) {
      data = blocks_->take(n);
      if (!data) fallbacks_.fetch_add(1, std::memory_order_relaxed);
    } else if (small_ && n - 1 < largest_small) {
      data = small_->take(n);
    }
    if (data) [[likely]] {
      report_allocation(data, n);
      return {data, data, &arena::release, device};
    }
  }
  void* data = c10::GetDefaultCPUAllocator()->raw_allocate(n);
  return {data, data, &arena::release, device};
}

void arena::release(void* data) noexcept {
  // Relaxed: whoever has a block of it has seen it made.
  auto* const small = installed_small.load(std::memory_order_relaxed);
  if (small && small->owns(data)) {
    if (fork_guard::off()) return;  // the parent's threads may have held its locks
    report_release(data);
    small->put(static_cast<std::byte*>(data));
  } else if (auto* blocks = arena_table::find(data)) {
    if (fork_guard::off()) return;
    report_release(data);
    blocks->put(static_cast<std::byte*>(data));
  } else {
    c10::GetDefaultCPUAllocator()->raw_deallocate(data);
  }
}

c10::DeleterFnPtr arena::raw_deleter() const { return &arena::release; }

void arena::copy_data(void* to, const void* from, std::size_t n) const {
  default_copy_data(to, from, n);
}

const arena_memory& arena::shared_memory() const {
  if (fork_guard::off())
    throw transport_error("this process was forked: the memory of its tensors is its parent's");
  return blocks_->memory();
}

unique_fd arena::read_only_descriptor() const { return shared_memory().read_only_descriptor(); }

unique_fd arena::writable_descriptor() const { return shared_memory().writable_descriptor(); }

std::size_t arena::limit() const noexcept { return blocks_->limit(); }

arena_counters arena::count() const noexcept {
  if (fork_guard::off()) return {};
  auto out = blocks_->count();
  out.fallbacks = fallbacks_.load(std::memory_order_relaxed);
  return out;
}

void arena::tidy() {
  if (!fork_guard::off()) blocks_->tidy();
}

arena* install_arena(const arena_options& options, std::string& why_not) {
  if (fork_guard::off()) {
    why_not = "this process was forked from one that has an arena";
    return nullptr;
  }
  static constinit std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (auto* one = installed.load()) return one;
  auto made = arena::make(options, true, why_not);
  if (!made) return nullptr;
  auto* const one = made.release();
  installed_small.store(one->small_);
  installed.store(one);
  c10::SetCPUAllocator(one, 255);  // the highest priority
  return one;
}

arena* installed_arena() noexcept {
  return fork_guard::off() ? nullptr : installed.load(std::memory_order_acquire);
}

}  // namespace troupe::transport
