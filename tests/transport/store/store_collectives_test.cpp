// Collectives of ranks that share a store and nothing else.
#include "troupe/transport/store/store_collectives.hpp"

#include <atomic>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/transport/store/store_contract.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::transport::test {
namespace {

store::bytes bytes_of_rank(std::uint32_t rank) { return to_bytes("from " + std::to_string(rank)); }

std::vector<store::bytes> bytes_of_ranks(std::uint32_t world_size) {
  std::vector<store::bytes> out;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) out.push_back(bytes_of_rank(rank));
  return out;
}

/// Over stores of each kind.
class store_collectives_over : public store_contract {
protected:
  /// Calls `body(collectives, rank)` on a thread for each rank, with a client of its own.
  template <class Body>
  void on_ranks(std::uint32_t world_size, Body body) {
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
      ranks.emplace_back([&, rank, mine = maker_->client()]() mutable {
        store_collectives all(std::move(mine), "job", rank, world_size);
        EXPECT_NO_THROW(body(all, rank));
      });
    for (auto& rank : ranks) rank.join();
  }

  store_collectives rank(std::uint32_t rank, std::uint32_t world_size) {
    return {maker_->client(), "job", rank, world_size};
  }
};

TEST_P(store_collectives_over, all_of_64_ranks) {
  constexpr std::uint32_t world_size = 64;
  constexpr std::uint32_t root = 5;
  std::atomic<std::uint32_t> before = 0;
  on_ranks(world_size, [&](store_collectives& all, std::uint32_t rank) {
    EXPECT_EQ(all.rank(), rank);
    EXPECT_EQ(all.world_size(), world_size);
    ++before;
    all.barrier("start", wait_limit);
    EXPECT_EQ(before, world_size);

    EXPECT_EQ(all.all_gather("names", bytes_of_rank(rank), wait_limit), bytes_of_ranks(world_size));
    EXPECT_EQ(all.all_sum("sum", rank - std::int64_t{3}, wait_limit), 64 * 63 / 2 - 3 * 64);

    if (rank == root) {
      all.broadcast_send("seed", bytes_of_rank(root));
      EXPECT_EQ(all.gather_recv("reports", bytes_of_rank(root), wait_limit),
                bytes_of_ranks(world_size));
      EXPECT_EQ(all.scatter_send("shards", bytes_of_ranks(world_size)), bytes_of_rank(root));
    } else {
      EXPECT_EQ(all.broadcast_recv("seed", wait_limit), bytes_of_rank(root));
      all.gather_send("reports", bytes_of_rank(rank));
      EXPECT_EQ(all.scatter_recv("shards", wait_limit), bytes_of_rank(rank));
    }
  });
}

TEST_P(store_collectives_over, name_the_ranks_that_are_missing) {
  auto one = rank(1, 4);
  auto two = rank(2, 4);
  two.barrier("b", 0ms, false);
  two.gather_send("g", bytes_of_rank(2));
  EXPECT_CONTAINS(text_of<store_error>([&] { one.barrier("b", 20ms); }),
                  "barrier of key 'b' failed at rank 1 of 4 after 20 ms: missing ranks: 0, 3 (wait "
                  "timeout after ");
  EXPECT_CONTAINS(text_of<store_error>([&] { one.gather_recv("g", {}, 20ms); }),
                  "gather of key 'g' failed at rank 1 of 4 after 20 ms: missing ranks: 0, 3 (");
  EXPECT_CONTAINS(
      text_of<store_error>([&] { one.all_gather("a", {}, 20ms); }),
      "all_gather of key 'a' failed at rank 1 of 4 after 20 ms: missing ranks: 0, 2, 3");
  EXPECT_CONTAINS(text_of<store_error>([&] { one.all_sum("s", 1, 20ms); }),
                  "all_sum of key 's' failed at rank 1 of 4 after 20 ms: missing ranks: 0, 2, 3");
  EXPECT_CONTAINS(text_of<store_error>([&] { one.broadcast_recv("d", 20ms); }),
                  "broadcast of key 'd' failed at rank 1 of 4 after 20 ms: no rank has sent");
  EXPECT_CONTAINS(text_of<store_error>([&] { one.scatter_recv("c", 20ms); }),
                  "scatter of key 'c' failed at rank 1 of 4 after 20 ms: no rank has sent");
}

TEST_P(store_collectives_over, another_operation_of_the_same_key_is_not_taken_for_this_one) {
  auto zero = rank(0, 2);
  auto one = rank(1, 2);
  zero.gather_send("x", bytes_of_rank(0));
  EXPECT_CONTAINS(text_of<store_error>([&] { one.all_gather("x", {}, 0ms); }),
                  "missing ranks: 0 (");
  // Nor what one key makes of another one.
  zero.gather_send("1/y", bytes_of_rank(0));
  EXPECT_CONTAINS(text_of<store_error>([&] { one.gather_recv("y", {}, 0ms); }),
                  "missing ranks: 0 (");
}

TEST_P(store_collectives_over, wait_as_long_as_the_store_does_without_a_timeout) {
  a_->set_timeout(30ms);
  store_collectives one(a_, "job", 1, 2);
  EXPECT_CONTAINS(text_of<store_error>([&] { one.barrier("b"); }), "after 30 ms");
}

INSTANTIATE_TEST_SUITE_P(kinds, store_collectives_over, testing::Values("hash", "tcp", "file"),
                         [](const auto& info) { return info.param; });

class store_collectives_alone : public testing::Test {
protected:
  std::shared_ptr<hash_store> keys_ = std::make_shared<hash_store>();
};

TEST_F(store_collectives_alone, use_each_key_once) {
  store_collectives one(keys_, "job", 0, 1);
  one.broadcast_send("foo", bytes_of_rank(0));
  const auto refused = [](auto call) {
    EXPECT_CONTAINS(text_of<invalid_argument>(call), "key 'foo' has already been used by rank 0");
  };
  refused([&] { one.barrier("foo"); });
  refused([&] { one.broadcast_send("foo", {}); });
  refused([&] { one.broadcast_recv("foo"); });
  refused([&] { one.gather_send("foo", {}); });
  refused([&] { one.gather_recv("foo", {}); });
  refused([&] { one.scatter_send("foo", bytes_of_ranks(1)); });
  refused([&] { one.scatter_recv("foo"); });
  refused([&] { one.all_gather("foo", {}); });
  refused([&] { one.all_sum("foo", 2); });
  EXPECT_EQ(keys_->num_keys(), 1u);
}

TEST_F(store_collectives_alone, a_key_is_used_up_by_a_timeout_but_not_by_a_wrong_argument) {
  store_collectives one(keys_, "job", 0, 2);
  EXPECT_THROW(one.scatter_send("k", bytes_of_ranks(3)), invalid_argument);
  EXPECT_THROW(one.barrier("k", -1ms), invalid_argument);
  EXPECT_THROW(one.barrier("k", 0ms), store_error);
  EXPECT_THROW(one.barrier("k", 0ms), invalid_argument);
}

TEST_F(store_collectives_alone, one_rank_is_there_once) {
  store_collectives one(keys_, "job", 1, 2);
  store_collectives again(keys_, "job", 1, 2);
  one.barrier("k", 0ms, false);
  EXPECT_CONTAINS(text_of<store_error>([&] { again.barrier("k", 0ms); }),
                  "rank 1 is already in the barrier of key 'k'");
  // The barrier still waits for the other one.
  store_collectives(keys_, "job", 0, 2).barrier("k", 0ms);
}

TEST_F(store_collectives_alone, of_different_prefixes_are_apart) {
  store_collectives(keys_, "first", 0, 2).barrier("k", 0ms, false);
  store_collectives other(keys_, "second", 1, 2);
  EXPECT_CONTAINS(text_of<store_error>([&] { other.barrier("k", 0ms); }), "missing ranks: 0 (");
}

TEST_F(store_collectives_alone, of_one_rank) {
  store_collectives one(keys_, "job", 0, 1);
  one.barrier("barrier", 0ms);
  EXPECT_EQ(one.gather_recv("gather", bytes_of_rank(0), 0ms), bytes_of_ranks(1));
  EXPECT_EQ(one.scatter_send("scatter", bytes_of_ranks(1)), bytes_of_rank(0));
  EXPECT_EQ(one.all_gather("all_gather", bytes_of_rank(0), 0ms), bytes_of_ranks(1));
  EXPECT_EQ(one.all_sum("all_sum", -7, 0ms), -7);
}

TEST_F(store_collectives_alone, refuse_wrong_arguments) {
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { store_collectives(keys_, "job", 4, 4); }),
                  "rank 4 of store_collectives 'job' must be less than its world size, 4");
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { store_collectives(keys_, "", 0, 1); }),
                  "need a prefix");
  EXPECT_THROW(store_collectives(nullptr, "job", 0, 1), invalid_argument);
  store_collectives one(keys_, "job", 1, 3);
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { one.scatter_send("k", bytes_of_ranks(2)); }),
                  "scatter of key 'k' needs a value for each of 3 ranks, but rank 1 gave 2");
  EXPECT_CONTAINS(text_of<invalid_argument>([&] { one.barrier("k", -1ms); }),
                  "barrier of key 'k' cannot wait for -1 ms");
  EXPECT_THROW(one.barrier(""), invalid_argument);
  EXPECT_THROW(one.gather_send("k", store::bytes(max_store_value + 1)), invalid_argument);
  EXPECT_EQ(keys_->num_keys(), 0u);
}

TEST_F(store_collectives_alone, name_64_ranks_and_count_the_others) {
  store_collectives one(keys_, "job", 0, 200);
  const auto text = text_of<store_error>([&] { one.barrier("k", 0ms); });
  EXPECT_CONTAINS(text, "missing ranks: 1, 2, 3, ");
  EXPECT_CONTAINS(text, ", 64 and 135 more (");
}

TEST_F(store_collectives_alone, a_sum_that_overflows_is_an_error) {
  store_collectives zero(keys_, "job", 0, 2);
  store_collectives one(keys_, "job", 1, 2);
  EXPECT_THROW(zero.all_sum("k", std::numeric_limits<std::int64_t>::max(), 0ms), store_error);
  EXPECT_CONTAINS(text_of<store_error>([&] { one.all_sum("k", 1, 0ms); }), "overflows");
}

}  // namespace
}  // namespace troupe::transport::test
