#include "troupe/transport/memory/page_heap.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "troupe/transport/memory/page_heap_rounding.hpp"

namespace troupe::transport {

namespace {

// What is taken and not yet a block of the caller's.
constexpr std::uint8_t in_transit = 255;

// In one bin; spans of later bins are large enough but for their alignment.
constexpr int most_tries = 16;

}  // namespace

page_heap::page_heap(std::uint32_t chunks)
    : size_(chunks * granules_of_chunk), tags_(size_), nodes_(size_), stamps_(chunks) {
  insert({0, size_}, fresh);
}

std::size_t page_heap::bin_of(std::uint32_t count) noexcept {
  if (count < 32) return count;
  const auto log = static_cast<unsigned>(std::bit_width(count)) - 1;
  return 32 + (log - 5) * 16 + ((count >> (log - 4)) & 15);
}

std::size_t page_heap::index::next_filled(std::size_t from) const noexcept {
  for (auto word = from / 64; word < filled.size(); ++word) {
    auto bits = filled[word];
    if (word == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
    if (bits != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }
  return bins;
}

void page_heap::insert(granule_span span, tag kind) noexcept {
  if (!span) return;
  auto& to = index_of(kind);
  const auto bin = bin_of(span.count);
  auto& first = nodes_[span.first];
  nodes_[span.end() - 1].count = span.count;
  first.count = span.count;
  first.next = to.heads[bin];
  first.previous = 0;
  if (first.next != 0) nodes_[first.next - 1].previous = span.first + 1;
  to.heads[bin] = span.first + 1;
  to.filled[bin / 64] |= std::uint64_t{1} << (bin % 64);
  tags_[span.first] = tags_[span.end() - 1] = kind;
  if (kind == backed) backed_free_ += span.count;
}

void page_heap::remove(granule_span span, tag kind) noexcept {
  auto& from = index_of(kind);
  const auto bin = bin_of(span.count);
  const auto& first = nodes_[span.first];
  (first.previous != 0 ? nodes_[first.previous - 1].next : from.heads[bin]) = first.next;
  if (first.next != 0) nodes_[first.next - 1].previous = first.previous;
  if (from.heads[bin] == 0) from.filled[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  if (kind == backed) backed_free_ -= span.count;
}

void page_heap::join(granule_span span, tag kind) noexcept {
  if (!span) return;
  if (span.first > 0 && tags_[span.first - 1] == kind) {
    const auto count = nodes_[span.first - 1].count;
    remove({span.first - count, count}, kind);
    span = {span.first - count, span.count + count};
  }
  if (span.end() < size_ && tags_[span.end()] == kind) {
    const auto count = nodes_[span.end()].count;
    remove({span.end(), count}, kind);
    span.count += count;
  }
  insert(span, kind);
}

void page_heap::mark_taken(granule_span span, std::uint8_t as) noexcept {
  if (!span) return;
  tags_[span.end() - 1] = taken;
  tags_[span.first] = as;
  nodes_[span.first].count = span.count;
}

void page_heap::stamp(granule_span span, round now) noexcept {
  if (!span) return;
  const auto first = span.first / granules_of_chunk;
  const auto last = (span.end() - 1) / granules_of_chunk;
  std::memset(&stamps_[first], now, last - first + 1);
}

void page_heap::cut(granule_span from, tag kind, granule_span part, std::uint8_t as) noexcept {
  remove(from, kind);
  insert({from.first, part.first - from.first}, kind);
  insert({part.end(), from.end() - part.end()}, kind);
  mark_taken(part, as);
}

granule_span page_heap::take_backed(std::uint32_t count, std::uint32_t alignment,
                                    label name) noexcept {
  granule_span best;
  const auto search = [&](int tries_a_bin) {
    bool complete = true;
    for (auto bin = backed_index_.next_filled(bin_of(count)); bin < bins && !best;
         bin = backed_index_.next_filled(bin + 1)) {
      int tries = 0;
      for (auto i = backed_index_.heads[bin]; i != 0; i = nodes_[i - 1].next) {
        const granule_span span{i - 1, nodes_[i - 1].count};
        const auto fits = round_up(span.first, alignment) + std::uint64_t{count} <= span.end();
        if (fits && (!best || span.count < best.count)) best = span;
        if (best && best.count == count) break;
        if (++tries == tries_a_bin) {
          complete = false;
          break;
        }
      }
    }
    return complete;
  };
  const auto complete = search(most_tries);
  if (!best && !complete) search(-1);
  if (!best) return {};
  const granule_span block{static_cast<std::uint32_t>(round_up(best.first, alignment)), count};
  cut(best, backed, block, static_cast<std::uint8_t>(first_label + name));
  return block;
}

granule_span page_heap::take_fresh(std::uint32_t most_chunks) noexcept {
  granule_span lowest;
  for (auto bin = fresh_index_.next_filled(0); bin < bins;
       bin = fresh_index_.next_filled(bin + 1)) {
    const auto i = fresh_index_.heads[bin] - 1;
    if (!lowest || i < lowest.first) lowest = {i, nodes_[i].count};
  }
  if (!lowest) return {};
  const granule_span part{lowest.first, std::min(lowest.count, most_chunks * granules_of_chunk)};
  cut(lowest, fresh, part, in_transit);
  return part;
}

granule_span page_heap::take_unused(round last, std::uint32_t most_chunks) noexcept {
  const auto old = [&](std::uint32_t chunk) {
    return static_cast<std::int8_t>(last - stamps_[chunk]) >= 0;
  };
  for (auto bin = backed_index_.next_filled(bin_of(granules_of_chunk)); bin < bins;
       bin = backed_index_.next_filled(bin + 1)) {
    for (auto i = backed_index_.heads[bin]; i != 0; i = nodes_[i - 1].next) {
      const granule_span span{i - 1, nodes_[i - 1].count};
      const auto end = span.end() / granules_of_chunk;
      auto begin =
          static_cast<std::uint32_t>(round_up(span.first, granules_of_chunk) / granules_of_chunk);
      while (begin < end && !old(begin)) ++begin;
      if (begin >= end) continue;
      auto chunks = std::uint32_t{1};
      while (chunks < most_chunks && begin + chunks < end && old(begin + chunks)) ++chunks;
      const granule_span part{begin * granules_of_chunk, chunks * granules_of_chunk};
      cut(span, backed, part, in_transit);
      return part;
    }
  }
  return {};
}

std::uint32_t page_heap::unused_chunks() const noexcept {
  std::uint32_t sum = 0;
  for (auto bin = backed_index_.next_filled(bin_of(granules_of_chunk)); bin < bins;
       bin = backed_index_.next_filled(bin + 1))
    for (auto i = backed_index_.heads[bin]; i != 0; i = nodes_[i - 1].next) {
      const auto end = (i - 1 + nodes_[i - 1].count) / granules_of_chunk;
      const auto begin = round_up(i - 1, granules_of_chunk) / granules_of_chunk;
      if (begin < end) sum += static_cast<std::uint32_t>(end - begin);
    }
  return sum;
}

void page_heap::put_backed(granule_span span, round now) noexcept {
  stamp(span, now);
  join(span, backed);
}

void page_heap::put_unused(granule_span span) noexcept { join(span, backed); }

void page_heap::put_fresh(granule_span span) noexcept { join(span, fresh); }

}  // namespace troupe::transport
