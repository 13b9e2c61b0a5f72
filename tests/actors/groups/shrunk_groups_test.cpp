// Groups that go on without some of their ranks: shrink.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

std::string refused_shrink(const process_group& group, const std::vector<int>& ranks) {
  return thrown_text<invalid_argument>([&] { group.shrink(ranks); });
}

TEST(shrunk_groups, are_refused_for_ranks_that_cannot_be_left_out) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    EXPECT_EQ(refused_shrink(group, {}),
              "ranks_to_exclude cannot be empty. To shrink a group, you must specify at least one "
              "rank to exclude. Example: [failed_rank_id]");
    EXPECT_EQ(refused_shrink(group, {3}),
              "Rank 3 at index 0 is out of bounds for group size 3. Valid ranks are in range [0, "
              "2].");
    const int other = (rank + 1) % 3, third = (rank + 2) % 3;
    EXPECT_EQ(refused_shrink(group, {other, -1}),
              "Rank -1 at index 1 is out of bounds for group size 3. Valid ranks are in range [0, "
              "2].");
    EXPECT_EQ(refused_shrink(group, {other, third, other}),
              "Duplicate rank " + std::to_string(other) +
                  " found in ranks_to_exclude at index 2. Each rank can only be excluded once.");
    EXPECT_EQ(refused_shrink(group, {2, 1, 0}),
              "Cannot exclude all 3 ranks from process group. At least one rank must remain. "
              "Excluding 3 ranks.");
    EXPECT_EQ(refused_shrink(group, {other, rank}),
              "Current rank " + std::to_string(rank) +
                  " is in the exclusion list and should not call shrink_group(). Only non-excluded "
                  "ranks should participate in the shrinking operation. Excluded ranks should "
                  "terminate their processes instead.");
    // The group is as good as before, also where pending operations were to be aborted.
    EXPECT_THROW(group.shrink({rank}, true), invalid_argument);
    EXPECT_THROW(group.shrink({}, true), invalid_argument);
    barrier(group);
  });
}

TEST(shrunk_groups, become_smaller_until_one_is_left) {
  local_group all(4);
  all.run([](const process_group& group, int rank) {
    auto left = group;
    for (int size = 4; size > 1; --size) {
      barrier(left);
      if (left.rank() == 0) return;  // the first goes each time
      const auto before = left;
      left = left.shrink({0});
      EXPECT_EQ(left.size(), size - 1);
      EXPECT_EQ(left.rank(), before.rank() - 1);
      EXPECT_EQ(left.completed_before(), size == 4 ? 1u : 3u);
      EXPECT_THROW(barrier(before), group_failed);
      const auto x = at::full({3}, rank, at::kInt);
      all_reduce(left, x);
      EXPECT_EQ(x[0].item<int>(), size == 4 ? 6 : size == 3 ? 5 : 3);
    }
    EXPECT_EQ(left.global_rank(0), 3u);
    EXPECT_EQ(refused_shrink(left, {0}),
              "Cannot shrink a process group with size 1. Group must have at least 2 ranks to "
              "support shrinking.");
  });
}

class shrunk_with_abort : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(backends, shrunk_with_abort, testing::Values("cpu:troupe", "cpu:network"),
                         [](const auto& info) { return std::string(info.param).substr(4); });

TEST_P(shrunk_with_abort, end_what_is_pending_first) {
  local_group all(4, {.backend = GetParam()});
  std::vector<process_group> left(4);
  all.run([&](const process_group& group, int rank) {
    barrier(group);
    const auto excluded_text = [&](auto f) {
      const auto text = thrown_text<group_failed>(f);
      EXPECT_THAT(text, HasSubstr("shrinks group 'world/0,1,2,3#0'"));
      EXPECT_THAT(text, HasSubstr("on rank " + std::to_string(rank)));
      return text;
    };
    const auto all_are_here = [&] { barrier(all.nodes[static_cast<std::size_t>(rank)].world()); };
    if (rank == 2) {
      all_are_here();
      // It has missed all of what the others do, and hears why it cannot come any more.
      EXPECT_TRUE(eventually([&] {
        try {
          group.member("a test")->check_usable();
        } catch (const group_failed&) {
          return true;
        }
        return false;
      }));
      EXPECT_THAT(excluded_text([&] { barrier(group); }), HasSubstr("takes no more operations"));
      return;
    }
    // Started ones, a receive, and one that blocks another thread.
    std::vector<work> started;
    for (const std::int64_t count : {4, 40'000})
      started.push_back(all_reduce(group, at::ones({count}), async));
    const auto receives = irecv(group, at::empty({1}, at::kFloat), 2);
    auto blocked = std::async(std::launch::async, [&] {
      return thrown_text<group_failed>([&] { all_reduce(group, at::ones({9})); });
    });
    all_are_here();
    if (rank == 3) std::this_thread::sleep_for(20ms);  // the others shrink first
    auto& mine = left[static_cast<std::size_t>(rank)];
    mine = group.shrink({2}, true);
    for (std::size_t i = 0; i < started.size(); ++i)
      EXPECT_THAT(excluded_text([&] { started[i].wait(); }),
                  testing::StartsWith("all_reduce, sequence number " + std::to_string(i + 2)));
    EXPECT_THAT(excluded_text([&] { receives.wait(); }), testing::StartsWith("recv of group"));
    EXPECT_NE(blocked.get(), "");
    EXPECT_EQ(mine.size(), 3);
    EXPECT_EQ(mine.rank(), rank == 3 ? 2 : rank);
    EXPECT_EQ(mine.backend(), GetParam());
    EXPECT_EQ(mine.completed_before(), 1u);
    for (const std::int64_t count : {1, 40'000}) {
      const auto x = at::full({count}, rank, at::kFloat);
      all_reduce(mine, x);
      EXPECT_EQ(x[count - 1].item<int>(), 4);
    }
  });
}

// Of the world: the rest is the world then, and groups of it are made; others stay as they are.
TEST_P(shrunk_with_abort, are_the_world_from_then_on) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [](const node& one, int rank) {
    const auto world = one.world();
    const auto other = world.new_group({0, 1, 2}, {.backend = GetParam()});
    const auto pending = rank == 1 ? work() : all_reduce(world, at::ones({2}), async);
    barrier(other);
    if (rank == 1) {
      barrier(other);
      return;
    }
    const auto left = world.shrink({1}, true, {.description = "two", .backend = GetParam()});
    EXPECT_THROW(pending.wait(), group_failed);
    EXPECT_EQ(one.world(), left);
    EXPECT_EQ(left.description(), "two");
    EXPECT_EQ(left.ranks(), (std::vector<std::uint32_t>{0, 2}));
    EXPECT_EQ(left.completed_before(), 0u);
    const auto part = one.world().new_group({1, 0});
    EXPECT_EQ(part.global_rank(0), 2u);
    const auto x = at::full({2}, rank, at::kInt);
    broadcast(part, x, 0);
    EXPECT_EQ(x[1].item<int>(), 2);
    barrier(other);
  });
}

}  // namespace
}  // namespace troupe::test
