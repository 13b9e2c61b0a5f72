#include "troupe/messages/memory/storage_pool.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace troupe {
namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

std::uintptr_t address(const std::shared_ptr<std::byte>& p) {
  return reinterpret_cast<std::uintptr_t>(p.get());
}

TEST(storage_pool, aligns_and_bounds_every_size) {
  storage_pool pool;
  std::vector<std::size_t> sizes = {0,   1,   63,  64,  65,          191,
                                    192, 193, 256, 257, 4 * mib - 1, 4 * mib};
  for (std::size_t s = 300; s < 40 * mib; s = s * 5 / 4 + 7) sizes.push_back(s);
  for (const auto size : sizes) {
    const auto before = pool.count().in_use;
    const auto p = pool.allocate(size);
    const auto taken = pool.count().in_use - before;
    EXPECT_GE(taken, size);
    const auto extra = size >= 4 * mib ? 2 * mib : 0;
    EXPECT_LE(taken, std::max<std::size_t>(64, size + size / 4 + 64) + extra) << size;
    EXPECT_EQ(address(p) % (size >= 4 * mib ? 2 * mib : 64), 0u) << size;
    if (size > 0) std::memset(p.get(), 1, size);
  }
}

TEST(storage_pool, recycles_a_block_when_the_last_pointer_is_dropped) {
  for (const auto size : {100 * std::size_t{1}, 70'000 * std::size_t{1}, 5 * mib}) {
    storage_pool pool;
    auto first = pool.allocate(size);
    const auto where = address(first);
    auto second = first;
    first.reset();
    EXPECT_NE(address(pool.allocate(size)), where);
    EXPECT_EQ(pool.count().misses, 2u);
    std::weak_ptr<std::byte> weak = second;
    second.reset();
    EXPECT_TRUE(weak.expired());
    weak.reset();
    EXPECT_EQ(address(pool.allocate(size)), where);
    EXPECT_EQ(pool.count().hits, 1u);
    EXPECT_EQ(pool.count().in_use, 0u);
  }
}

TEST(storage_pool, keeps_no_more_than_its_limit_and_the_newest) {
  storage_pool pool(10 * mib);
  auto a = pool.allocate(4 * mib);
  auto b = pool.allocate(4 * mib);
  auto c = pool.allocate(4 * mib);
  auto large = pool.allocate(16 * mib);
  const auto oldest = address(a);
  const auto newest = address(c);
  a.reset();
  b.reset();
  c.reset();
  EXPECT_EQ(pool.count().cached, 8 * mib);
  large.reset();  // larger than all that may be kept: gone at once
  EXPECT_EQ(pool.count().cached, 8 * mib);
  a = pool.allocate(4 * mib);
  b = pool.allocate(4 * mib);
  EXPECT_EQ(pool.count().hits, 2u);
  EXPECT_EQ(address(a), newest);
  EXPECT_TRUE(address(b) != oldest);
}

TEST(storage_pool, lets_go_of_sizes_that_are_no_longer_used) {
  storage_pool pool(1 * mib);
  for (int i = 0; i < 3; ++i) pool.allocate(200'000);
  std::vector<std::shared_ptr<std::byte>> small;
  for (int i = 0; i < 2'000; ++i) small.push_back(pool.allocate(1'000));
  small.clear();
  const auto before = pool.count();
  EXPECT_LE(before.cached, 1 * mib);
  pool.allocate(200'000);
  EXPECT_EQ(pool.count().misses, before.misses + 1);
}

TEST(storage_pool, is_outlived_by_its_blocks) {
  std::shared_ptr<std::byte> small;
  std::shared_ptr<std::byte> large;
  {
    storage_pool pool;
    small = pool.allocate(100);
    large = pool.allocate(8 * mib);
    pool.allocate(5'000);
  }
  std::memset(small.get(), 7, 100);
  std::memset(large.get(), 7, 8 * mib);
  EXPECT_EQ(large.get()[8 * mib - 1], std::byte{7});
}

TEST(storage_pool, refuses_sizes_that_no_machine_has) {
  storage_pool pool;
  EXPECT_THROW(pool.allocate(~std::size_t{0}), std::bad_alloc);
  EXPECT_THROW(pool.allocate(std::size_t{1} << 62), std::bad_alloc);
  EXPECT_EQ(pool.count().in_use, 0u);
}

TEST(storage_pool, gives_each_thread_memory_of_its_own) {
  storage_pool pool(3 * mib);
  std::mutex mutex;
  std::deque<std::pair<std::shared_ptr<std::byte>, std::size_t>> shared;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 20'000; ++i) {
      const std::size_t size = 1 + random() % (random() % 50 == 0 ? 300'000 : 3'000);
      auto p = pool.allocate(size);
      const auto mark = std::byte(random());
      p.get()[0] = mark;
      p.get()[size - 1] = mark;
      std::pair<std::shared_ptr<std::byte>, std::size_t> other;
      {
        const std::lock_guard lock(mutex);
        if (!shared.empty() && shared.size() > random() % 30) {
          other = std::move(shared.front());
          shared.pop_front();
        }
        if (p.get()[0] != mark || p.get()[size - 1] != mark) throw std::logic_error("overwritten");
        shared.emplace_back(std::move(p), size);
      }
      // Dropped here, usually by another thread than the one that took it.
      if (other.first && other.first.get()[0] != other.first.get()[other.second - 1])
        throw std::logic_error("two owners of one block");
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (auto& t : threads) t.join();
  EXPECT_GT(pool.count().hits, pool.count().misses);
  shared.clear();
  EXPECT_EQ(pool.count().in_use, 0u);
  EXPECT_LE(pool.count().cached, 3 * mib);
}

}  // namespace
}  // namespace troupe
