// Blocks of private memory for small tensors.
#include "troupe/transport/memory/small_blocks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::transport {
namespace {

constexpr std::size_t slab = small_blocks::slab_size;

TEST(small_sizes, fit_and_waste_little) {
  for (std::size_t bytes = 1; bytes <= largest_small; ++bytes) {
    const auto c = small_class_of(bytes);
    ASSERT_GE(c, 1u);
    ASSERT_LE(c, small_classes);
    ASSERT_GE(bytes_of_small[c], bytes);
    ASSERT_TRUE(c == 1 || bytes_of_small[c - 1] < bytes) << bytes;
    ASSERT_EQ(bytes_of_small[c] % 64, 0u);
    ASSERT_LE(bytes_of_small[c] - bytes, bytes / 4 + 63);
  }
}

// The caches of threads belong to one object in a process, here to that of each test in turn.
struct small_blocks_test : testing::Test {
  void make(std::size_t most) {
    heap = small_blocks::make([this] { ++unused_calls; }, most);
    ASSERT_TRUE(heap);
  }
  template <class Work>
  static void elsewhere(Work work) {
    std::thread(work).join();
  }
  std::atomic<int> unused_calls{0};
  std::unique_ptr<small_blocks> heap;
};

TEST_F(small_blocks_test, hold_what_was_written) {
  make(std::size_t{1} << 30);
  elsewhere([&] {
    std::mt19937 random(5);
    std::map<std::byte*, std::pair<std::size_t, int>> held;
    for (int i = 0; i < 200'000; ++i) {
      if (held.empty() || random() % 100 < (i / 20'000 % 2 ? 40 : 60)) {
        const auto bytes = 1 + random() % (random() % 3 ? 700 : largest_small);
        auto* const block = heap->take(bytes);
        ASSERT_TRUE(block);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
        ASSERT_TRUE(heap->owns(block) && heap->owns(block + bytes - 1));
        const auto next = held.lower_bound(block);
        ASSERT_TRUE(next == held.end() || block + bytes <= next->first);
        ASSERT_TRUE(next == held.begin() ||
                    std::prev(next)->first + std::prev(next)->second.first <= block);
        const auto value = static_cast<int>(random() % 256);
        std::memset(block, value, bytes);
        held[block] = {bytes, value};
      } else {
        auto at = held.lower_bound(std::next(held.begin(), random() % 2)->first);
        if (at == held.end()) at = held.begin();
        const auto [bytes, value] = at->second;
        for (std::size_t k = 0; k < bytes; ++k)
          ASSERT_EQ(std::to_integer<int>(at->first[k]), value);
        heap->put(at->first);
        held.erase(at);
      }
    }
    for (const auto& [block, what] : held) heap->put(block);
  });
}

TEST_F(small_blocks_test, come_back_from_other_threads) {
  make(std::size_t{1} << 30);
  constexpr int rounds = 300, each = 64;
  std::atomic<std::byte*> passed[2][each] = {};
  const auto work = [&](int self, unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < rounds; ++i)
      for (int k = 0; k < each; ++k) {
        auto* const mine = heap->take(64 + random() % 2000);
        ASSERT_TRUE(mine);
        std::memset(mine, self + 1, 64);
        if (auto* const other = passed[self][k].exchange(mine)) heap->put(other);
        if (auto* const other = passed[1 - self][k].exchange(nullptr)) {
          ASSERT_EQ(std::to_integer<int>(other[63]), 2 - self);
          heap->put(other);
        }
      }
  };
  std::thread one(work, 0, 1), other(work, 1, 2);
  one.join();
  other.join();
  for (auto& side : passed)
    for (auto& place : side)
      if (auto* const block = place.load()) heap->put(block);
}

TEST_F(small_blocks_test, serve_another_size_once_they_are_back) {
  make(16 * slab);
  elsewhere([&] {
    for (const std::size_t bytes : {std::size_t{64}, std::size_t{16'384}, std::size_t{1000}}) {
      std::vector<std::byte*> all;
      while (auto* const block = heap->take(bytes)) all.push_back(block);
      // Each size keeps a slab, and each thread some blocks.
      EXPECT_GE(all.size() * bytes, 10 * slab) << bytes;
      EXPECT_LE(all.size() * bytes, 16 * slab);
      for (auto* const block : all) heap->put(block);
    }
  });
}

TEST_F(small_blocks_test, return_to_the_system_when_they_are_unused) {
  make(std::size_t{1} << 30);
  std::vector<std::byte*> all;
  elsewhere([&] {
    for (int i = 0; i < 10'000; ++i) all.push_back(heap->take(1024));
  });
  const auto most = heap->held();
  EXPECT_GE(most, 10'000 * 1024u);
  elsewhere([&] {
    for (auto* const block : all) heap->put(block);
  });  // what the thread keeps goes back as it ends
  EXPECT_EQ(unused_calls, 1);
  EXPECT_TRUE(heap->has_unused());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(heap->tidy());
  EXPECT_EQ(heap->held(), most);
  EXPECT_FALSE(heap->tidy());
  EXPECT_LE(heap->held(), slab);
  EXPECT_FALSE(heap->has_unused());
  elsewhere([&] {  // zeros, since the memory is the system's again
    auto* const block = heap->take(1024);
    EXPECT_EQ(std::to_integer<int>(block[100]), 0);
    heap->put(block);
  });
}

TEST_F(small_blocks_test, are_kept_by_threads) {
  make(std::size_t{1} << 20);
  elsewhere([&] {
    auto* const first = heap->take(500);
    heap->put(first);
    for (int i = 0; i < 100; ++i) {
      auto* const again = heap->take(500);
      EXPECT_EQ(again, first);
      heap->put(again);
    }
  });
}

TEST_F(small_blocks_test, are_kept_by_threads_that_have_taken_none) {
  make(std::size_t{1} << 20);
  auto* const block = heap->take(500);
  elsewhere([&] {
    heap->put(block);
    EXPECT_EQ(heap->take(500), block);
    heap->put(block);
  });
}

TEST_F(small_blocks_test, come_back_after_their_thread_s_cache_has_ended) {
  make(std::size_t{1} << 20);
  struct late {
    small_blocks* heap = nullptr;
    std::byte* block = nullptr;
    ~late() {
      heap->put(block);
      auto* const another = heap->take(64);
      EXPECT_TRUE(another);
      heap->put(another);
    }
  };
  elsewhere([&] {
    static thread_local late last;  // made before the cache, so destroyed after it
    last.heap = heap.get();
    last.block = heap->take(64);
  });
  EXPECT_LE(heap->held(), slab);
}

}  // namespace
}  // namespace troupe::transport
