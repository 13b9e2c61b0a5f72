#include "troupe/transport/memory/backed_heap.hpp"

#include <algorithm>

namespace troupe::transport {

namespace {

// What is given back at once, so that others wait for little.
constexpr std::uint32_t chunks_at_once = 32;

std::size_t bytes_of(std::uint32_t granules) { return granules * arena_granule; }

}  // namespace

backed_heap::backed_heap(arena_memory& memory, std::size_t limit)
    : memory_(memory),
      backing_(memory),
      limit_(limit),
      heap_(static_cast<std::uint32_t>(memory.size() / arena_chunk)) {}

std::byte* backed_heap::take(unsigned size_class) noexcept {
  return take(granules_of_class(size_class), 1, static_cast<page_heap::label>(size_class));
}

std::byte* backed_heap::take_large(std::size_t bytes) noexcept {
  if (bytes > memory_.size()) return nullptr;
  const auto granules = granules_of_large(bytes);
  return take(granules, alignment_of_large(granules), 0);
}

std::byte* backed_heap::take(std::uint32_t granules, std::uint32_t alignment,
                             page_heap::label name) noexcept {
  std::unique_lock lock(mutex_);
  auto block = heap_.take_backed(granules, alignment, name);
  if (!block) block = grow(lock, granules, alignment, name);
  if (!block) return nullptr;
  count_taken(block);
  lock.unlock();
  return hand_out(block);
}

std::size_t backed_heap::take_backed(unsigned size_class, std::byte** out,
                                     std::size_t most) noexcept {
  const auto granules = granules_of_class(size_class);
  std::size_t count = 0, good = 0;
  {
    const std::lock_guard lock(mutex_);
    for (; count < most; ++count) {
      const auto block = heap_.take_backed(granules, 1, static_cast<page_heap::label>(size_class));
      if (!block) break;
      count_taken(block);
      out[count] = at(block.first);
    }
  }
  while (good < count && hand_out({granule_of(out[good]), granules})) ++good;
  if (good < count) put_all(out + good + 1, count - good - 1);
  return good;
}

void backed_heap::count_taken(granule_span block) noexcept {
  count_.in_use += bytes_of(block.count);
  count_.peak_in_use = std::max(count_.peak_in_use, count_.in_use);
  ++count_.taken;
}

// A block that the calling thread owns; null, and it is given up, where the system has no memory.
std::byte* backed_heap::hand_out(granule_span block) noexcept {
  if (backing_.back_block(block)) [[likely]]
    return at(block.first);
  put(at(block.first));
  return nullptr;
}

granule_span backed_heap::grow(std::unique_lock<std::mutex>& lock, std::uint32_t granules,
                               std::uint32_t alignment, page_heap::label name) noexcept {
  const auto grown = heap_.take_growing(granules, alignment);
  if (!grown) return {};
  const auto more = bytes_of(grown.fresh_granules);
  if (!make_room(lock, more)) {
    heap_.undo(grown);
    return {};
  }
  count_.held += more;
  lock.unlock();
  std::size_t done = 0;
  const auto offset = [&](std::size_t part) { return bytes_of(grown.fresh[part].first); };
  const auto bytes = [&](std::size_t part) { return bytes_of(grown.fresh[part].count); };
  while (done < grown.parts && backing_.back_chunks(grown.fresh[done])) ++done;
  const auto complete = done == grown.parts;
  if (!complete)
    while (done-- > 0) memory_.give_back(offset(done), bytes(done));
  lock.lock();
  if (!complete) {
    count_.held -= more;
    heap_.undo(grown);
    return {};
  }
  count_.backed += more;
  grown_.store(true);
  heap_.settle(grown, name, now_);
  return grown.block;
}

// Below the limit, at the price of what is unused elsewhere.
bool backed_heap::make_room(std::unique_lock<std::mutex>& lock, std::size_t bytes) noexcept {
  while (count_.held + bytes > limit_) {
    const auto excess = count_.held + bytes - limit_;
    if (heap_.unused_chunks() * arena_chunk < excess) return false;
    const auto chunks = (excess + arena_chunk - 1) / arena_chunk;
    const auto some = heap_.take_unused(now_, static_cast<std::uint32_t>(chunks));
    if (!some || !return_to_system(lock, some)) return false;
  }
  return true;
}

bool backed_heap::return_to_system(std::unique_lock<std::mutex>& lock, granule_span span) noexcept {
  lock.unlock();
  const auto done = memory_.give_back(bytes_of(span.first), bytes_of(span.count));
  lock.lock();
  if (!done) {
    heap_.put_unused(span);
    return false;
  }
  count_.held -= bytes_of(span.count);
  count_.given_back += bytes_of(span.count);
  backing_.forget(span);
  heap_.put_fresh(span);
  return true;
}

void backed_heap::put(std::byte* block) noexcept { put_all(&block, 1); }

void backed_heap::put_all(std::byte* const* blocks, std::size_t count,
                          page_heap::round age) noexcept {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < count; ++i) {
    const auto span = heap_.block_at(granule_of(blocks[i]));
    count_.in_use -= bytes_of(span.count);
    heap_.put_backed(span, static_cast<page_heap::round>(now_ - age));
  }
}

void backed_heap::age() noexcept {
  const std::lock_guard lock(mutex_);
  ++now_;
}

void backed_heap::give_back_unused(page_heap::round rounds) noexcept {
  std::unique_lock lock(mutex_);
  const auto last = static_cast<page_heap::round>(now_ - rounds - 1);
  while (const auto some = heap_.take_unused(last, chunks_at_once))
    if (!return_to_system(lock, some)) return;
}

bool backed_heap::has_unused() const noexcept {
  const std::lock_guard lock(mutex_);
  return heap_.unused_chunks() > 0;
}

void backed_heap::back_ahead(std::size_t bytes) noexcept {
  std::unique_lock lock(mutex_);
  while (bytes_of(heap_.backed_free()) < bytes && count_.held + arena_chunk <= limit_) {
    const auto some = heap_.take_fresh(1);
    if (!some) return;
    count_.held += arena_chunk;
    lock.unlock();
    const auto done = backing_.back_chunks(some);
    lock.lock();
    if (!done) {
      count_.held -= arena_chunk;
      heap_.put_fresh(some);
      return;
    }
    count_.backed += arena_chunk;
    heap_.put_backed(some, now_);
  }
}

backed_heap::counters backed_heap::count() const noexcept {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace troupe::transport
