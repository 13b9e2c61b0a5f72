#include "troupe/transport/memory/arena_blocks.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "troupe/transport/memory/arena_table.hpp"
#include "troupe/transport/memory/fork_guard.hpp"

namespace troupe::transport {

namespace {

// Unused memory ages by rounds, and returns to the system after more than so many.
constexpr page_heap::round rounds_unused = 4;

// What a page heap can count, with a wide margin.
constexpr std::size_t most_limit = std::size_t{1} << 41;

std::size_t limit_for(const arena_options& options) {
  return std::min(options.limit > 0 ? options.limit : default_arena_limit(), most_limit);
}

// Address space costs nothing. Twice the limit, so that there is room for a large block whatever
// lies between.
std::size_t reserve_for(std::size_t limit) {
  const auto bytes = std::max(2 * limit, limit + (std::size_t{4} << 30));
  return (bytes + arena_chunk - 1) / arena_chunk * arena_chunk;
}

}  // namespace

arena_blocks::arena_blocks(const arena_options& options, std::size_t limit,
                           std::unique_ptr<arena_memory> memory)
    : options_(options),
      memory_(std::move(memory)),
      heap_(*memory_, std::min(limit, memory_->size())) {}

std::unique_ptr<arena_blocks> arena_blocks::make(const arena_options& options, bool caches,
                                                 std::string& why_not) {
  if (fork_guard::off()) {
    why_not = "this process was forked from one that has an arena";
    return nullptr;
  }
  try {
    const auto limit = limit_for(options);
    auto memory = std::make_unique<arena_memory>(reserve_for(limit), options.huge_pages, why_not);
    if (!*memory) return nullptr;
    std::unique_ptr<arena_blocks> made(new arena_blocks(options, limit, std::move(memory)));
    fork_guard::watch();
    if (!arena_table::add(made->memory_->base(), made->memory_->size(), made.get())) {
      why_not = "there are too many arenas in this process";
      return nullptr;
    }
    made->start(caches);
    return made;
  } catch (const std::exception& e) {
    why_not = e.what();
    return nullptr;
  }
}

void arena_blocks::start(bool caches) {
  if (caches) {
    caches_ = std::make_unique<thread_caches>(heap_);
    small_ = small_blocks::make([this] {
      if (housekeeping_) housekeeping_->notice();
    });
  }
  if (!options_.housekeeping) return;
  const auto interval =
      std::max(options_.give_back_after / rounds_unused, std::chrono::milliseconds(1));
  housekeeping_ = std::make_unique<housekeeping>(
      interval, housekeeping::duties{[this] { return tidy(); },
                                     [this] {
                                       return heap_.has_unused() ||
                                              (caches_ && caches_->count().bytes > 0) ||
                                              (small_ && small_->has_unused());
                                     },
                                     [this] { back_ahead(); }});
}

arena_blocks::~arena_blocks() {
  housekeeping_.reset();
  arena_table::remove(memory_->base());
}

std::byte* arena_blocks::take_once(std::size_t bytes) noexcept {
  if (bytes > largest_of_class) return heap_.take_large(bytes);
  return caches_ ? caches_->take(class_of(bytes)) : heap_.take(class_of(bytes));
}

std::byte* arena_blocks::take(std::size_t bytes) noexcept {
  auto* block = take_once(bytes);
  // At the limit, what is missing may lie in this thread's cache.
  if (!block && caches_ && caches_->empty_own()) [[unlikely]]
    block = take_once(bytes);
  if (housekeeping_ && heap_.has_grown()) [[unlikely]]
    housekeeping_->prepare_soon();
  return block;
}

void arena_blocks::put(std::byte* block) noexcept {
  const auto size_class = caches_ ? heap_.class_at(block) : 0;
  if (size_class > 0)
    caches_->put(block, size_class);
  else
    heap_.put(block);
  if (housekeeping_) housekeeping_->notice();
}

bool arena_blocks::tidy() noexcept {
  heap_.age();
  const auto cached = caches_ && caches_->empty_idle(rounds_unused);
  heap_.give_back_unused(rounds_unused);
  if (heap_.has_grown()) back_ahead();
  const auto small = small_ && small_->tidy();
  return cached || small || heap_.has_unused();
}

void arena_blocks::back_ahead() noexcept {
  // Nothing for what is less than eight chunks: that would be much beside what is used.
  const auto eighth = heap_.count().held / 8 / arena_chunk * arena_chunk;
  if (eighth > 0) heap_.back_ahead(std::min(eighth, options_.ahead));
}

arena_counters arena_blocks::count() const noexcept {
  const auto cached = caches_ ? caches_->count() : thread_caches::counters{};
  const auto heap = heap_.count();
  arena_counters out;
  out.held = heap.held;
  out.cached = std::min(cached.bytes, heap.in_use);  // the two are not of one instant
  out.in_use = heap.in_use - out.cached;
  out.peak_in_use = heap.peak_in_use;
  out.from_cache = cached.taken;
  out.from_heap = heap.taken;
  out.backed = heap.backed;
  out.given_back = heap.given_back;
  out.small_held = small_ ? small_->held() : 0;
  return out;
}

}  // namespace troupe::transport
