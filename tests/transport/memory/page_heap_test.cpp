#include "troupe/transport/memory/page_heap.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace troupe::transport {
namespace {

TEST(size_classes, waste_at_most_an_eighth_from_16_kib_on) {
  for (std::size_t n = 16 << 10; n <= largest_of_class; n += 512) {
    const auto held = granules_of_class(class_of(n)) * arena_granule;
    ASSERT_GE(held, n);
    ASSERT_LE((held - n) * 8, held) << n;
  }
  for (unsigned c = 1; c <= size_classes; ++c)
    EXPECT_EQ(class_of(granules_of_class(c) * arena_granule), c);
  for (std::size_t n = largest_of_class + 1; n < (std::size_t{1} << 36); n += n / 7) {
    const auto granules = granules_of_large(n);
    const auto alignment = alignment_of_large(granules);
    ASSERT_GE(granules * arena_granule, n);
    ASSERT_LE((granules * arena_granule - n) * 8, granules * arena_granule);
    ASSERT_EQ(alignment & (alignment - 1), 0u);
    ASSERT_GE(alignment * arena_granule, std::size_t{64} << 10);
    ASSERT_TRUE(alignment * 8 <= granules || granules % alignment == 0);
  }
  EXPECT_EQ(alignment_of_large(granules_of_large(std::size_t{16} << 20)), granules_of_chunk);
  EXPECT_EQ(alignment_of_large(granules_of_large(std::size_t{2} << 20)), granules_of_chunk);
}

// What the heap should hold, granule by granule in maps.
class heap_model {
public:
  explicit heap_model(std::uint32_t chunks) : heap(chunks), backed(chunks, false) {}

  page_heap heap;
  std::vector<bool> backed;  // each chunk
  std::map<std::uint32_t, std::uint32_t> taken;
  std::uint64_t taken_sum = 0;

  void claim(granule_span span) {
    ASSERT_TRUE(span);
    ASSERT_LE(span.end(), heap.size());
    const auto after = taken.lower_bound(span.first);
    if (after != taken.end()) {
      ASSERT_LE(span.end(), after->first);
    }
    if (after != taken.begin()) {
      const auto before = std::prev(after);
      ASSERT_LE(before->first + before->second, span.first);
    }
    taken[span.first] = span.count;
    taken_sum += span.count;
  }

  granule_span release(std::map<std::uint32_t, std::uint32_t>::iterator which) {
    const granule_span span{which->first, which->second};
    taken_sum -= which->second;
    taken.erase(which);
    return span;
  }

  bool all_backed(granule_span span, bool value = true) const {
    for (auto c = span.first / granules_of_chunk; c <= (span.end() - 1) / granules_of_chunk; ++c)
      if (backed[c] != value) return false;
    return true;
  }

  void set_backed(granule_span span, bool value) {
    for (auto c = span.first / granules_of_chunk; c <= (span.end() - 1) / granules_of_chunk; ++c)
      backed[c] = value;
  }

  // Is there room, in backed memory alone or in all?
  bool fits(std::uint32_t count, std::uint32_t alignment, bool only_backed) const {
    const auto try_run = [&](std::uint64_t begin, std::uint64_t end) {
      begin = (begin + alignment - 1) / alignment * alignment;
      return begin + count <= end;
    };
    std::uint64_t at = 0;
    auto next = taken.begin();
    while (at < heap.size()) {
      const std::uint64_t end = next == taken.end() ? heap.size() : next->first;
      if (!only_backed) {
        if (try_run(at, end)) return true;
      } else {
        for (auto from = at; from < end;) {
          const auto chunk_end = (from / granules_of_chunk + 1) * granules_of_chunk;
          if (!backed[from / granules_of_chunk]) {
            from = chunk_end;
            continue;
          }
          auto to = std::min(end, chunk_end);
          while (to < end && backed[to / granules_of_chunk])
            to = std::min(end, to + granules_of_chunk);
          if (try_run(from, to)) return true;
          from = to;
        }
      }
      if (next == taken.end()) break;
      at = std::uint64_t{next->first} + next->second;
      ++next;
    }
    return false;
  }

  std::uint64_t backed_sum() const {
    std::uint64_t sum = 0;
    for (const auto one : backed) sum += one ? granules_of_chunk : 0;
    return sum;
  }
};

TEST(page_heap, agrees_with_a_model) {
  constexpr std::uint32_t chunks = 24;
  heap_model model(chunks);
  auto& heap = model.heap;
  std::mt19937 random(20'240'611);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::uint64_t grown = 0, reused = 0, refused = 0, made_fresh = 0;
  for (std::uint32_t step = 0; step < 100'000; ++step) {
    const auto now = static_cast<page_heap::round>(step / 10);
    const auto what = below(100);
    // Waves: mostly taking, then mostly giving back.
    const auto takes = step / 400 % 2 == 0 ? 50u : 30u;
    if (what < takes) {
      const auto large = below(8) == 0;
      const auto count = large ? 1 + below(6 * granules_of_chunk) : 1 + below(600);
      const auto alignment = std::uint32_t{1} << below(large ? 11 : 5);
      const auto name = static_cast<page_heap::label>(below(250));
      if (const auto block = heap.take_backed(count, alignment, name)) {
        ++reused;
        ASSERT_EQ(block.count, count);
        ASSERT_EQ(block.first % alignment, 0u);
        ASSERT_TRUE(model.all_backed(block));
        model.claim(block);
        ASSERT_EQ(heap.label_at(block.first), name);
        ASSERT_EQ(heap.block_at(block.first).count, count);
      } else {
        ASSERT_FALSE(model.fits(count, alignment, true));
        const auto grow = heap.take_growing(count, alignment);
        ASSERT_EQ(bool(grow), model.fits(count, alignment, false));
        if (!grow) {
          ++refused;
          continue;
        }
        ++grown;
        ASSERT_EQ(grow.block.count, count);
        ASSERT_EQ(grow.block.first % alignment, 0u);
        ASSERT_GT(grow.parts, 0u);
        std::uint32_t sum = 0;
        for (std::size_t i = 0; i < grow.parts; ++i) {
          ASSERT_EQ(grow.fresh[i].first % granules_of_chunk, 0u);
          ASSERT_EQ(grow.fresh[i].count % granules_of_chunk, 0u);
          ASSERT_TRUE(model.all_backed(grow.fresh[i], false));
          sum += grow.fresh[i].count;
        }
        ASSERT_EQ(sum, grow.fresh_granules);
        model.claim(grow.whole);
        if (below(4) == 0) {
          heap.undo(grow);
          model.release(model.taken.find(grow.whole.first));
        } else {
          for (std::size_t i = 0; i < grow.parts; ++i) model.set_backed(grow.fresh[i], true);
          ASSERT_TRUE(model.all_backed(grow.whole));
          heap.settle(grow, name, now);
          model.release(model.taken.find(grow.whole.first));
          model.claim(grow.block);
          ASSERT_EQ(heap.label_at(grow.block.first), name);
          ASSERT_EQ(heap.block_at(grow.block.first).count, count);
        }
      }
    } else if (what < 84) {
      if (model.taken.empty()) continue;
      auto which = model.taken.lower_bound(below(heap.size()));
      if (which == model.taken.end()) which = model.taken.begin();
      const auto span = model.release(which);
      ASSERT_EQ(heap.block_at(span.first).count, span.count);
      heap.put_backed(span, now);
    } else if (what < 98) {
      const auto before = heap.unused_chunks();
      const auto some =
          heap.take_unused(static_cast<page_heap::round>(now - below(20)), 1 + below(4));
      if (!some) continue;
      ++made_fresh;
      ASSERT_EQ(heap.unused_chunks() + some.count / granules_of_chunk, before);
      ASSERT_EQ(some.first % granules_of_chunk, 0u);
      ASSERT_EQ(some.count % granules_of_chunk, 0u);
      ASSERT_TRUE(model.all_backed(some));
      model.claim(some);
      model.release(model.taken.find(some.first));
      if (below(3) == 0) {
        heap.put_unused(some);
      } else {
        heap.put_fresh(some);
        model.set_backed(some, false);
      }
    } else if (what == 98) {
      if (const auto some = heap.take_fresh(1 + below(3))) {
        ASSERT_TRUE(model.all_backed(some, false));
        model.claim(some);
        model.release(model.taken.find(some.first));
        heap.put_backed(some, now);
        model.set_backed(some, true);
      }
    }
    ASSERT_EQ(heap.backed_free() + model.taken_sum, model.backed_sum()) << step;
  }
  EXPECT_GT(grown, 1'000u);
  EXPECT_GT(reused, 10'000u);
  EXPECT_GT(refused, 10u);
  EXPECT_GT(made_fresh, 100u);
  // All together again: one span, whatever was taken before.
  while (!model.taken.empty()) heap.put_backed(model.release(model.taken.begin()), 0);
  while (const auto some = heap.take_fresh(100)) heap.put_backed(some, 0);
  ASSERT_EQ(heap.backed_free(), heap.size());
  EXPECT_TRUE(heap.take_backed(heap.size(), granules_of_chunk, 1));
}

TEST(page_heap, takes_the_smallest_span_that_is_large_enough) {
  page_heap heap(8);
  heap.put_backed(heap.take_fresh(8), 0);
  std::vector<granule_span> blocks;
  for (const auto count : {100u, 1u, 60u, 1u, 80u, 1u})
    blocks.push_back(heap.take_backed(count, 1, 0));
  for (const auto i : {0u, 2u, 4u}) heap.put_backed(blocks[i], 0);
  EXPECT_EQ(heap.take_backed(70, 1, 0).first, blocks[4].first);
  EXPECT_EQ(heap.take_backed(60, 1, 0).first, blocks[2].first);
  EXPECT_EQ(heap.take_backed(100, 1, 0).first, blocks[0].first);
}

TEST(page_heap, grows_by_what_is_missing) {
  page_heap heap(64);
  heap.put_backed(heap.take_fresh(10), 0);
  EXPECT_FALSE(heap.take_backed(12 * granules_of_chunk, 1, 0));
  const auto grown = heap.take_growing(12 * granules_of_chunk, granules_of_chunk);
  ASSERT_TRUE(grown);
  EXPECT_EQ(grown.block.first, 0u);
  EXPECT_EQ(grown.fresh_granules, 2 * granules_of_chunk);
}

TEST(page_heap, knows_what_was_unused_for_long) {
  page_heap heap(8);
  heap.put_backed(heap.take_fresh(8), 5);
  const auto block = heap.take_backed(100, 1, 0);
  heap.put_backed(block, 9);  // touches the first chunk alone
  EXPECT_FALSE(heap.take_unused(4, 100));
  const auto old = heap.take_unused(5, 100);
  EXPECT_EQ(old.first, granules_of_chunk);
  EXPECT_EQ(old.count, 7 * granules_of_chunk);
  heap.put_fresh(old);
  EXPECT_FALSE(heap.take_unused(8, 100));
  EXPECT_TRUE(heap.take_unused(9, 100));
}

}  // namespace
}  // namespace troupe::transport
