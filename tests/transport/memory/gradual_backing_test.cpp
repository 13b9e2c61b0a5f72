// The first chunks of an arena are backed piece by piece, as blocks are taken.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "troupe/transport/memory/backed_heap.hpp"

namespace troupe::transport {
namespace {

constexpr std::size_t page = 4096;

class pieces : public testing::Test {
protected:
  void SetUp() override { ASSERT_TRUE(memory) << why; }

  // Pages that the system has given, of so many bytes.
  std::size_t resident(std::size_t offset, std::size_t bytes) const {
    std::vector<unsigned char> present(bytes / page);
    EXPECT_EQ(mincore(memory.base() + offset, bytes, present.data()), 0);
    std::size_t count = 0;
    for (const auto one : present) count += one & 1;
    return count;
  }

  std::string why;
  arena_memory memory{16 * arena_chunk, true, why};
};

TEST_F(pieces, are_backed_when_a_block_is_taken_that_touches_them) {
  gradual_backing backing(memory);
  ASSERT_TRUE(backing.back_chunks({0, granules_of_chunk}));
  EXPECT_EQ(resident(0, arena_chunk), 0U);
  // 5 granules of 2 KiB from the seventh on, in the first and the second piece of 16 KiB.
  ASSERT_TRUE(backing.back_block({6, 5}));
  EXPECT_EQ(resident(0, arena_chunk), 8U);
  EXPECT_EQ(resident(0, 8 * page), 8U);
  ASSERT_TRUE(backing.back_block({0, 3}));
  EXPECT_EQ(resident(0, arena_chunk), 8U);
  ASSERT_TRUE(backing.back_block({granules_of_chunk - 1, 2}));  // of two chunks
  EXPECT_EQ(resident(0, 2 * arena_chunk), 16U);
}

TEST_F(pieces, keep_what_was_written_when_their_chunk_is_whole) {
  gradual_backing backing(memory);
  constexpr std::uint32_t step = 24;  // 48 KiB
  for (std::uint32_t at = 0; at < granules_of_chunk; at += step) {
    const granule_span block{at, std::min(step, granules_of_chunk - at)};
    ASSERT_TRUE(backing.back_block(block));
    std::memset(memory.base() + at * arena_granule, static_cast<int>(at / step + 1),
                block.count * arena_granule);
  }
  EXPECT_EQ(resident(0, arena_chunk), arena_chunk / page);
  for (std::uint32_t at = 0; at < granules_of_chunk; ++at)
    ASSERT_EQ(memory.base()[at * arena_granule], static_cast<std::byte>(at / step + 1)) << at;
}

TEST_F(pieces, are_backed_again_after_their_chunk_was_given_back) {
  gradual_backing backing(memory);
  ASSERT_TRUE(backing.back_block({0, 8}));
  ASSERT_TRUE(memory.give_back(0, arena_chunk));
  backing.forget({0, granules_of_chunk});
  EXPECT_EQ(resident(0, arena_chunk), 0U);
  ASSERT_TRUE(backing.back_block({0, 8}));
  EXPECT_EQ(resident(0, arena_chunk), 4U);
}

TEST_F(pieces, end_behind_the_fourth_chunk) {
  gradual_backing backing(memory);
  ASSERT_TRUE(backing.back_chunks({3 * granules_of_chunk, 2 * granules_of_chunk}));
  EXPECT_EQ(resident(3 * arena_chunk, arena_chunk), 0U);
  EXPECT_EQ(resident(4 * arena_chunk, arena_chunk), arena_chunk / page);
}

TEST_F(pieces, are_there_for_all_of_several_threads) {
  gradual_backing backing(memory);
  std::vector<std::thread> threads;
  for (std::uint32_t one = 0; one < 4; ++one)
    threads.emplace_back([&, one] {
      // Blocks of one granule, eight of which share a piece, two of each with other threads.
      for (std::uint32_t at = one; at < 4 * granules_of_chunk; at += 4) {
        ASSERT_TRUE(backing.back_block({at, 1}));
        std::memset(memory.base() + at * arena_granule, static_cast<int>(one + 1), arena_granule);
      }
    });
  for (auto& one : threads) one.join();
  for (std::uint32_t at = 0; at < 4 * granules_of_chunk; ++at)
    ASSERT_EQ(memory.base()[at * arena_granule], static_cast<std::byte>(at % 4 + 1)) << at;
}

// A heap of a program with few tensors.
TEST_F(pieces, make_small_heaps_small) {
  backed_heap heap(memory, memory.size());
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(heap.take(class_of(40'000)));
  for (const auto* block : blocks) ASSERT_NE(block, nullptr);
  EXPECT_LE(resident(0, arena_chunk), 10U * 10 + 4);  // of 512
  for (auto* block : blocks) heap.put(block);
  for (int i = 0; i <= 5; ++i) heap.age();
  heap.give_back_unused(4);
  EXPECT_EQ(resident(0, arena_chunk), 0U);
  auto* const again = heap.take(class_of(40'000));
  ASSERT_NE(again, nullptr);
  EXPECT_GE(resident(0, arena_chunk), 10U);
}

}  // namespace
}  // namespace troupe::transport
