#include "troupe/messages/memory/storage_pool.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "troupe/messages/base/forked.hpp"

namespace troupe {

namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t huge_from = std::size_t{4} << 20;
constexpr std::size_t largest = std::size_t{1} << 47;

// Classes are 64 bytes times 4, 5, 6 or 7 times a power of two, and 64, 128 and 192 bytes.
constexpr std::size_t class_count = 4 * 44;

std::size_t class_of(std::size_t size) noexcept {
  const auto units = size <= alignment ? 1 : (size + alignment - 1) / alignment;
  if (units <= 4) return units;
  const auto shift = static_cast<std::size_t>(std::bit_width(units - 1)) - 3;
  const auto steps = ((units - 1) >> shift) + 1;  // 4 to 8, rounded up
  return 4 * shift + steps;
}

std::size_t bytes_of_class(std::size_t index) noexcept {
  if (index < 4) return alignment * index;
  const auto shift = (index - 4) / 4;
  const auto bytes = alignment * ((index - 4) % 4 + 4) << shift;
  return bytes < huge_from ? bytes : (bytes + huge_page - 1) / huge_page * huge_page;
}

std::byte* take_memory(std::size_t size) {
  if (size < huge_from) {
    auto* data = std::aligned_alloc(alignment, size);
    if (!data) throw std::bad_alloc();
    return static_cast<std::byte*>(data);
  }
  // Mapped too large and cut, so that the kernel can use huge pages throughout.
  void* raw =
      ::mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(raw);
  const auto misplaced = reinterpret_cast<std::uintptr_t>(begin) % huge_page;
  const auto skip = misplaced == 0 ? 0 : huge_page - misplaced;
  if (skip > 0) ::munmap(begin, skip);
  if (skip < huge_page) ::munmap(begin + skip + size, huge_page - skip);
  ::madvise(begin + skip, size, MADV_HUGEPAGE);  // a hint: without it the pages are small
  return begin + skip;
}

void give_memory(std::byte* data, std::size_t size) noexcept {
  if (size < huge_from)
    std::free(data);
  else
    ::munmap(data, size);
}

}  // namespace

// A piece of memory together with the room for the control block of the pointer to it. It is out
// (and holds the state) or cached (and held by it).
struct storage_pool::block {
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::size_t index = 0;
  std::uint64_t since = 0;  // when it came back, in blocks that came back before
  block* next = nullptr;    // towards the one that came back earlier
  block* previous = nullptr;
  std::shared_ptr<state> owner;
  alignas(std::max_align_t) std::byte control[96];

  block(std::size_t bytes, std::size_t class_index)
      : data(take_memory(bytes)), size(bytes), index(class_index) {}
  ~block() { give_memory(data, size); }
  block(const block&) = delete;
  block& operator=(const block&) = delete;
};

struct storage_pool::state {
  explicit state(std::size_t most) : limit(most) {}
  ~state() { free_all(evict(nullptr, 0)); }

  struct list {
    block* newest = nullptr;
    block* oldest = nullptr;
  };

  std::mutex mutex;
  std::array<list, class_count> cached{};
  counters count;
  std::uint64_t returned = 0;
  std::size_t limit;

  block* take(std::size_t index) {
    const std::lock_guard lock(mutex);
    auto& from = cached[index];
    auto* found = from.newest;
    if (!found) return nullptr;
    from.newest = found->next;
    (from.newest ? from.newest->previous : from.oldest) = nullptr;
    count.cached -= found->size;
    count.in_use += found->size;
    ++count.hits;
    return found;
  }

  void count_fresh(std::size_t size) {
    const std::lock_guard lock(mutex);
    count.in_use += size;
    ++count.misses;
  }

  void put_back(block* b) noexcept {
    block* extra = nullptr;
    {
      const std::lock_guard lock(mutex);
      count.in_use -= b->size;
      b->since = ++returned;
      b->previous = nullptr;
      auto& to = cached[b->index];
      b->next = std::exchange(to.newest, b);
      (b->next ? b->next->previous : to.oldest) = b;
      count.cached += b->size;
      if (count.cached > limit) extra = evict(b->size > limit ? b : nullptr, limit);
    }
    free_all(extra);
  }

  // Takes blocks out until `keep` bytes are left: `first`, if given, then those unused longest.
  // Under the lock.
  block* evict(block* first, std::size_t keep) noexcept {
    block* out = nullptr;
    while (count.cached > keep) {
      auto* b = std::exchange(first, nullptr);
      if (!b)
        for (const auto& from : cached)
          if (from.oldest && (!b || from.oldest->since < b->since)) b = from.oldest;
      auto& from = cached[b->index];
      (b->previous ? b->previous->next : from.newest) = b->next;
      (b->next ? b->next->previous : from.oldest) = b->previous;
      count.cached -= b->size;
      b->next = std::exchange(out, b);
    }
    return out;
  }

  static void free_all(block* list) noexcept {
    while (list) delete std::exchange(list, list->next);
  }
};

// Puts a pointer's control block into the block it is about. The control block goes last, when
// weak pointers are gone too: then the block is free for the next caller.
template <class T>
struct storage_pool::control_allocator {
  using value_type = T;
  block* home;

  explicit control_allocator(block* b) noexcept : home(b) {}
  template <class U>
  explicit control_allocator(const control_allocator<U>& other) noexcept : home(other.home) {}

  T* allocate(std::size_t) noexcept {
    static_assert(sizeof(T) <= sizeof(block::control) && alignof(T) <= alignof(std::max_align_t));
    return reinterpret_cast<T*>(home->control);
  }

  void deallocate(T*, std::size_t) noexcept {
    if (forked::from_nodes()) return;  // a thread that no longer exists may hold the pool's lock
    const auto owner = std::move(home->owner);
    owner->put_back(home);
  }

  friend bool operator==(const control_allocator&, const control_allocator&) = default;
};

storage_pool::storage_pool(std::size_t limit) : state_(std::make_shared<state>(limit)) {}

storage_pool::~storage_pool() {
  block* unused = nullptr;
  {
    const std::lock_guard lock(state_->mutex);
    state_->limit = 0;
    unused = state_->evict(nullptr, 0);
  }
  state::free_all(unused);
}

std::shared_ptr<std::byte> storage_pool::allocate(std::size_t size) {
  if (size > largest) throw std::bad_alloc();
  const auto index = class_of(size);
  auto* b = state_->take(index);
  if (!b) {
    b = new block(bytes_of_class(index), index);
    state_->count_fresh(b->size);
  }
  b->owner = state_;
  const auto keep_data = [](std::byte*) noexcept {};
  return {b->data, keep_data, control_allocator<std::byte>(b)};
}

storage_pool::counters storage_pool::count() const noexcept {
  const std::lock_guard lock(state_->mutex);
  return state_->count;
}

std::size_t storage_pool::default_limit() noexcept {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page = ::sysconf(_SC_PAGESIZE);
  constexpr auto most = std::size_t{2} << 30;
  if (pages <= 0 || page <= 0) return most;
  return std::min(most, static_cast<std::size_t>(pages) / 4 * static_cast<std::size_t>(page));
}

}  // namespace troupe
