#include "troupe/transport/memory/small_blocks.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>
#include <utility>

#include "troupe/transport/memory/fork_guard.hpp"

namespace troupe::transport {

namespace {

// Of one size, in a thread's cache: so many bytes, but some blocks at least and not too many.
constexpr std::uint32_t most_cached(unsigned size_class) {
  return std::clamp<std::uint32_t>((32U << 10) / bytes_of_small[size_class], 4, 64);
}

constexpr std::uint32_t blocks_in_slab(unsigned size_class) {
  return static_cast<std::uint32_t>(small_blocks::slab_size / bytes_of_small[size_class]);
}

}  // namespace

// Destroyed as the thread ends; blocks may come back afterwards too, by other destructors.
struct small_blocks::leaving {
  explicit leaving(small_blocks& heap) : of(heap) {
    for (unsigned c = 1; c <= small_classes; ++c) own_cache[c].most = most_cached(c);
  }
  ~leaving() {
    for (unsigned c = 1; c <= small_classes; ++c) {
      own_cache[c].most = 0;
      // In a forked process the parent's threads may have held the locks.
      if (!fork_guard::off()) of.give_all(own_cache[c], c);
    }
  }
  small_blocks& of;
};

std::unique_ptr<small_blocks> small_blocks::make(std::function<void()> on_unused,
                                                 std::size_t most) {
  void* const at = ::mmap(nullptr, most + slab_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  // Aligned; what stands over at either end is whole pages.
  auto* const start = static_cast<std::byte*>(at);
  const auto before = -reinterpret_cast<std::uintptr_t>(at) % slab_size;
  if (before > 0) ::munmap(start, before);
  ::munmap(start + before + most, slab_size - before);
  try {
    return std::unique_ptr<small_blocks>(
        new small_blocks(start + before, most, std::move(on_unused)));
  } catch (const std::bad_alloc&) {
    ::munmap(start + before, most);
    return nullptr;
  }
}

small_blocks::small_blocks(std::byte* base, std::size_t size, std::function<void()> on_unused)
    : base_(base),
      size_(size),
      on_unused_(std::move(on_unused)),
      classes_(size / slab_size),
      slabs_(size / slab_size) {}

small_blocks::~small_blocks() {
  own_cache = {};
  ::munmap(base_, size_);
}

// This thread keeps blocks from now on. False: it did so already, or is ending.
bool small_blocks::begin_caching() noexcept {
  static thread_local bool begun = false;
  if (begun) return false;
  begun = true;
  static thread_local const leaving at_end(*this);
  return true;
}

// One for the caller, and half of what this thread may keep.
std::byte* small_blocks::refill(unsigned size_class) noexcept {
  auto& own = own_cache[size_class];
  if (own.most == 0) begin_caching();
  auto& from = shelves_[size_class];
  const std::lock_guard lock(from.mutex);
  auto* const block = take_one(from, size_class);
  for (auto more = block ? own.most / 2 : 0; more > 0; --more) {
    // No new slab for the cache alone.
    auto* const other = from.first != 0 ? take_one(from, size_class) : nullptr;
    if (!other) break;
    next_of(other) = own.first;
    own.first = other;
    ++own.count;
  }
  return block;
}

// Keeps those that came last: they are in the processor's cache, and in few slabs.
void small_blocks::overflow(std::byte* block, unsigned size_class) noexcept {
  auto& own = own_cache[size_class];
  if (own.most == 0 && begin_caching()) return put(block);
  auto** end = &own.first;
  for (auto kept = own.count / 2; kept > 0; --kept) end = &next_of(*end);
  bin old{std::exchange(*end, nullptr), own.count - own.count / 2, 0};
  own.count /= 2;
  give_all(old, size_class);
  auto& to = shelves_[size_class];
  const std::lock_guard lock(to.mutex);
  put_one(to, block, size_class);
}

void small_blocks::give_all(bin& from, unsigned size_class) noexcept {
  if (from.count == 0) return;
  auto& to = shelves_[size_class];
  const std::lock_guard lock(to.mutex);
  for (; from.count > 0; --from.count)
    put_one(to, std::exchange(from.first, next_of(from.first)), size_class);
}

// Under the shelf's lock, as is what follows.
std::byte* small_blocks::take_one(shelf& from, unsigned size_class) noexcept {
  if (from.first == 0) {
    const auto made = new_slab(size_class);
    if (made == 0) return nullptr;
    push(from.first, made);
  }
  const auto which = from.first;
  auto& s = slabs_[which - 1];
  std::byte* block = s.free;
  if (block)
    s.free = next_of(block);
  else
    block = base_ + (which - 1) * slab_size + s.cut++ * std::size_t{bytes_of_small[size_class]};
  ++s.in_use;
  if (!s.free && s.cut == blocks_in_slab(size_class)) remove(from.first, which);
  return block;
}

void small_blocks::put_one(shelf& to, std::byte* block, unsigned size_class) noexcept {
  const auto which = static_cast<link>(slab_of(block) + 1);
  auto& s = slabs_[which - 1];
  const bool was_full = !s.free && s.cut == blocks_in_slab(size_class);
  next_of(block) = s.free;
  s.free = block;
  --s.in_use;
  if (was_full) push(to.first, which);
  // The last one of its size stays, for the next block.
  if (s.in_use > 0 || (to.first == which && s.next == 0)) return;
  remove(to.first, which);
  retire(which);
}

small_blocks::link small_blocks::new_slab(unsigned size_class) noexcept {
  const std::lock_guard lock(mutex_);
  link which = 0;
  const auto taken_from = [&](link& list) {
    which = list;
    if (which != 0) remove(list, which);
    return which != 0;
  };
  if (!std::ranges::any_of(unused_, taken_from)) {
    if (!taken_from(returned_)) {
      if (made_ == size_ / slab_size) return 0;
      which = ++made_;
    }
    ++with_memory_;
  }
  slabs_[which - 1] = {};
  classes_[which - 1] = static_cast<std::uint8_t>(size_class);
  return which;
}

void small_blocks::retire(link which) noexcept {
  {
    const std::lock_guard lock(mutex_);
    push(unused_[0], which);
    if (slabs_[which - 1].next != 0) return;
  }
  if (on_unused_) on_unused_();
}

// Nobody waits while the system works: what is returned is in no list meanwhile.
bool small_blocks::tidy() noexcept {
  link old = 0;
  {
    const std::lock_guard lock(mutex_);
    old = unused_.back();
    std::shift_right(unused_.begin(), unused_.end(), 1);
    unused_[0] = 0;
  }
  while (old != 0) {
    const auto which = std::exchange(old, slabs_[old - 1].next);
    const bool done = ::madvise(base_ + (which - 1) * slab_size, slab_size, MADV_DONTNEED) == 0;
    const std::lock_guard lock(mutex_);
    push(done ? returned_ : unused_[0], which);
    if (done) --with_memory_;
  }
  return has_unused();
}

bool small_blocks::has_unused() const noexcept {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(unused_, [](link first) { return first != 0; });
}

std::size_t small_blocks::held() const noexcept {
  const std::lock_guard lock(mutex_);
  return with_memory_ * slab_size;
}

void small_blocks::push(link& list, link which) noexcept {
  auto& s = slabs_[which - 1];
  s.next = list;
  s.previous = 0;
  if (list != 0) slabs_[list - 1].previous = which;
  list = which;
}

void small_blocks::remove(link& list, link which) noexcept {
  const auto& s = slabs_[which - 1];
  (s.previous != 0 ? slabs_[s.previous - 1].next : list) = s.next;
  if (s.next != 0) slabs_[s.next - 1].previous = s.previous;
}

}  // namespace troupe::transport
