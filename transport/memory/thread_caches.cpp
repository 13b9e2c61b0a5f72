#include "troupe/transport/memory/thread_caches.hpp"

#include <algorithm>
#include <array>
#include <new>

#include "troupe/transport/memory/fork_guard.hpp"

namespace troupe::transport {

namespace {

constexpr std::size_t most_of_class = 16;                       // blocks in a thread's cache
constexpr std::size_t class_bytes_kept = std::size_t{2} << 20;  // but at least four blocks

// Of a thread's cache: a sixteenth of the arena, so that what caches keep is little beside what the
// program uses, whatever its size.
constexpr std::size_t least_bytes = std::size_t{1} << 20;
constexpr std::size_t most_bytes = std::size_t{8} << 20;

constexpr std::size_t bytes_kept(std::size_t held) {
  return std::clamp(held / 16, least_bytes, most_bytes);
}

constexpr std::size_t bytes_of_class(unsigned size_class) {
  return granules_of_class(size_class) * arena_granule;
}

constexpr auto kept_by_class = [] {
  std::array<std::uint8_t, size_classes + 1> out{};
  for (unsigned c = 1; c <= size_classes; ++c)
    out[c] = static_cast<std::uint8_t>(
        std::clamp<std::size_t>(class_bytes_kept / bytes_of_class(c), 4, most_of_class));
  return out;
}();

}  // namespace

// Its thread uses it, and housekeeping now and then. Who finds it busy does without it.
struct alignas(64) thread_caches::cache {
  struct bin {
    std::uint16_t count = 0;
    std::uint16_t refilled = 0;  // blocks that the last refill brought
    std::array<std::byte*, most_of_class> blocks;
  };

  bool enter() noexcept { return !busy.exchange(true, std::memory_order_acquire); }
  void leave() noexcept { busy.store(false, std::memory_order_release); }

  // Only who is inside writes these; others read them.
  void add_bytes(std::size_t more) noexcept {
    bytes.store(bytes.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  void count_one() noexcept {
    taken.store(taken.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::atomic<bool> busy{false};
  std::atomic<std::size_t> bytes{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> put{0};
  std::size_t most = least_bytes;  // as of when it was reached last
  std::array<bin, size_classes + 1> bins{};

  // Of housekeeping, under the list's lock.
  std::uint64_t seen = 0;
  unsigned idle_rounds = 0;
  cache* next = nullptr;
  cache* previous = nullptr;
};

thread_local constinit thread_caches::cache* thread_caches::own_ = nullptr;
thread_local constinit bool thread_caches::ended_ = false;

// Destroyed as the thread ends; blocks may be freed afterwards too, by other destructors.
struct thread_caches::leaving {
  thread_caches* of = nullptr;
  ~leaving() {
    auto* const ending = own_;
    own_ = nullptr;
    ended_ = true;
    if (of && ending && !fork_guard::off()) of->retire(ending);
  }
};

std::byte* thread_caches::take(unsigned size_class) noexcept {
  auto* own = own_;
  if (!own) [[unlikely]]
    own = make_own();
  if (!own || !own->enter()) [[unlikely]]
    return heap_.take(size_class);
  auto& from = own->bins[size_class];
  std::byte* block = nullptr;
  if (from.count > 0) [[likely]] {
    block = from.blocks[--from.count];
    own->add_bytes(-bytes_of_class(size_class));
    own->count_one();
  } else {
    block = refill(*own, size_class);
  }
  own->leave();
  return block ? block : heap_.take(size_class);
}

void thread_caches::put(std::byte* block, unsigned size_class) noexcept {
  auto* own = own_;
  if (!own) [[unlikely]]
    own = make_own();
  if (!own || !own->enter()) [[unlikely]]
    return heap_.put(block);
  auto& to = own->bins[size_class];
  if (to.count == kept_by_class[size_class]) [[unlikely]]
    give_half(*own, size_class);
  to.blocks[to.count++] = block;
  own->add_bytes(bytes_of_class(size_class));
  own->put.store(own->put.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (own->bytes.load(std::memory_order_relaxed) > own->most) [[unlikely]]
    make_less(*own, size_class);
  own->leave();
}

// One for the caller, and some for later: twice as many each time, since a size may come but once.
std::byte* thread_caches::refill(cache& to, unsigned size_class) noexcept {
  auto& bin = to.bins[size_class];
  const auto wanted = std::clamp(2 * bin.refilled, 1, kept_by_class[size_class] / 2);
  const auto count = heap_.take_backed(size_class, bin.blocks.data(), std::size_t(wanted));
  bin.count = bin.refilled = static_cast<std::uint16_t>(count);
  if (bin.count == 0) return nullptr;
  --bin.count;
  to.add_bytes(bin.count * bytes_of_class(size_class));
  return bin.blocks[bin.count];
}

// Those that have been there longest.
void thread_caches::give_half(cache& from, unsigned size_class) noexcept {
  auto& bin = from.bins[size_class];
  const auto half = (bin.count + 1u) / 2;
  heap_.put_all(bin.blocks.data(), half);
  std::copy(bin.blocks.begin() + half, bin.blocks.begin() + bin.count, bin.blocks.begin());
  bin.count = static_cast<std::uint16_t>(bin.count - half);
  from.add_bytes(-(half * bytes_of_class(size_class)));
}

void thread_caches::make_less(cache& from, unsigned size_class) noexcept {
  from.most = bytes_kept(heap_.count().held);
  if (from.bytes.load(std::memory_order_relaxed) > from.most) give_others(from, size_class);
  if (from.bytes.load(std::memory_order_relaxed) > from.most) give_half(from, size_class);
}

void thread_caches::give_others(cache& from, unsigned size_class) noexcept {
  for (unsigned c = 1; c <= size_classes; ++c) {
    auto& bin = from.bins[c];
    if (c == size_class || bin.count == 0) continue;
    heap_.put_all(bin.blocks.data(), bin.count);
    from.add_bytes(-(bin.count * bytes_of_class(c)));
    bin.count = 0;
  }
}

bool thread_caches::empty_own() noexcept {
  auto* const own = own_;
  if (!own || own->bytes.load(std::memory_order_relaxed) == 0 || !own->enter()) return false;
  give_others(*own, 0);
  own->leave();
  return true;
}

thread_caches::cache* thread_caches::make_own() noexcept {
  if (ended_) return nullptr;
  static thread_local leaving at_end;
  auto* const made = new (std::nothrow) cache;
  if (!made) return nullptr;
  at_end.of = this;
  own_ = made;
  const std::lock_guard lock(mutex_);
  made->next = first_;
  if (first_) first_->previous = made;
  first_ = made;
  return made;
}

void thread_caches::retire(cache* ending) noexcept {
  {
    const std::lock_guard lock(mutex_);  // after this housekeeping does not know it
    (ending->previous ? ending->previous->next : first_) = ending->next;
    if (ending->next) ending->next->previous = ending->previous;
    taken_before_ += ending->taken.load(std::memory_order_relaxed);
  }
  give_others(*ending, 0);
  delete ending;
}

bool thread_caches::empty_idle(page_heap::round rounds) noexcept {
  const std::lock_guard lock(mutex_);
  bool left = false;
  for (auto* one = first_; one; one = one->next) {
    const auto used =
        one->taken.load(std::memory_order_relaxed) + one->put.load(std::memory_order_relaxed);
    one->idle_rounds = used == one->seen ? one->idle_rounds + 1 : 0;
    one->seen = used;
    if (one->idle_rounds >= rounds && one->bytes.load(std::memory_order_relaxed) > 0 &&
        one->enter()) {
      for (unsigned c = 1; c <= size_classes; ++c) {
        auto& bin = one->bins[c];
        if (bin.count > 0) heap_.put_all(bin.blocks.data(), bin.count, rounds);
        bin.count = 0;
      }
      one->bytes.store(0, std::memory_order_relaxed);
      one->leave();
    }
    left = left || one->bytes.load(std::memory_order_relaxed) > 0;
  }
  return left;
}

thread_caches::counters thread_caches::count() const noexcept {
  const std::lock_guard lock(mutex_);
  counters out{0, taken_before_};
  for (const auto* one = first_; one; one = one->next) {
    out.bytes += one->bytes.load(std::memory_order_relaxed);
    out.taken += one->taken.load(std::memory_order_relaxed);
  }
  return out;
}

}  // namespace troupe::transport
