// Where memory that is not backed yet is taken: beside backed memory, so that little is new.
#include <algorithm>

#include "troupe/transport/memory/page_heap.hpp"
#include "troupe/transport/memory/page_heap_rounding.hpp"

namespace troupe::transport {

namespace {

constexpr std::uint8_t growing = 255;

// Spans looked at for one block; there are more only in a reserve in pieces, where any window does.
constexpr int most_spans = 20'000;

}  // namespace

// The window from `start`, which lies in the free span at `span`; none if the free spans from there
// end too early, or if too many parts of it are fresh.
page_heap::window page_heap::window_at(std::uint32_t span, std::uint64_t start,
                                       std::uint32_t count) const noexcept {
  const auto end = start + count;
  const auto first_chunk = round_down(start, granules_of_chunk);
  const auto last_chunk = round_up(end, granules_of_chunk);
  if (end > size_) return {};
  window found{{static_cast<std::uint32_t>(start), count}, span, 0};
  std::size_t parts = 0;
  for (std::uint64_t at = span; at < end;) {
    if (!is_free(static_cast<std::uint32_t>(at))) return {};
    const auto after = at + nodes_[at].count;
    if (tags_[at] == fresh && after > start) {
      if (++parts > growth::most_parts) return {};
      found.fresh += static_cast<std::uint32_t>(std::min(after, last_chunk) -
                                                std::max<std::uint64_t>(at, first_chunk));
    }
    at = after;
  }
  return found;
}

page_heap::window page_heap::best_window(std::uint32_t count,
                                         std::uint32_t alignment) const noexcept {
  window best;
  int looked_at = 0;
  const auto consider = [&](const window& one) {
    if (!one.block) return;
    if (!best.block || one.fresh < best.fresh ||
        (one.fresh == best.fresh && one.block.first < best.block.first))
      best = one;
  };
  for (auto bin = fresh_index_.next_filled(0); bin < bins; bin = fresh_index_.next_filled(bin + 1))
    for (auto i = fresh_index_.heads[bin]; i != 0; i = nodes_[i - 1].next) {
      // Backed and fresh spans alternate in a run of free ones; its first fresh one stands for it.
      auto begin = i - 1;
      if (begin > 0 && tags_[begin - 1] == backed) begin -= nodes_[begin - 1].count;
      if (begin < i - 1 && begin > 0 && is_free(begin - 1)) continue;
      auto end = begin, last = begin;
      for (; end < size_ && is_free(end); end += nodes_[end].count) {
        consider(window_at(end, round_up(end, alignment), count));
        last = end;
        if (++looked_at > most_spans && best.block) return best;
      }
      // The last window of the run, whose beginning may lie within a span.
      if (end - begin < count) continue;
      const auto start = round_down(end - count, alignment);
      if (start < begin) continue;
      while (last > start) last -= nodes_[last - 1].count;
      consider(window_at(last, start, count));
    }
  return best;
}

page_heap::growth page_heap::take_growing(std::uint32_t count, std::uint32_t alignment) noexcept {
  const auto found = best_window(count, alignment);
  growth out;
  out.block = out.whole = found.block;
  if (!out) return out;
  out.fresh_granules = found.fresh;
  const auto first_chunk = round_down(out.block.first, granules_of_chunk);
  const auto last_chunk = round_up(out.block.end(), granules_of_chunk);
  auto begin = out.block.first, end = out.block.end();
  for (auto at = found.span; at < out.block.end(); at += nodes_[at].count) {
    if (tags_[at] != fresh || at + nodes_[at].count <= out.block.first) continue;
    const auto from = std::max<std::uint32_t>(at, static_cast<std::uint32_t>(first_chunk));
    const auto to =
        std::min<std::uint32_t>(at + nodes_[at].count, static_cast<std::uint32_t>(last_chunk));
    out.fresh[out.parts++] = {from, to - from};
    begin = std::min(begin, from);
    end = std::max(end, to);
  }
  out.whole = {begin, end - begin};
  for (auto at = found.span; at < end;) {
    const granule_span span{at, nodes_[at].count};
    const auto kind = static_cast<tag>(tags_[at]);
    at = span.end();
    if (at <= begin) continue;
    remove(span, kind);
    if (span.first < begin) insert({span.first, begin - span.first}, kind);
    if (span.end() > end) insert({end, span.end() - end}, kind);
  }
  mark_taken(out.whole, growing);
  return out;
}

void page_heap::settle(const growth& grown, label name, round now) noexcept {
  const granule_span before{grown.whole.first, grown.block.first - grown.whole.first};
  const granule_span after{grown.block.end(), grown.whole.end() - grown.block.end()};
  mark_taken(before, growing);
  mark_taken(after, growing);
  mark_taken(grown.block, static_cast<std::uint8_t>(first_label + name));
  if (before) put_backed(before, now);
  if (after) put_backed(after, now);
}

void page_heap::undo(const growth& grown) noexcept {
  const auto each = [&](auto&& f) {
    auto at = grown.whole.first;
    for (std::size_t i = 0; i < grown.parts; ++i) {
      const auto& part = grown.fresh[i];
      f(granule_span{at, part.first - at}, backed);
      f(part, fresh);
      at = part.end();
    }
    f(granule_span{at, grown.whole.end() - at}, backed);
  };
  // All are marked first: a piece must not join one that is yet to come.
  each([&](granule_span span, tag) { mark_taken(span, growing); });
  each([&](granule_span span, tag kind) { join(span, kind); });
}

}  // namespace troupe::transport
