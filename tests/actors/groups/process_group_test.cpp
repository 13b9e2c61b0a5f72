// Groups: who is in them, and how they are made and end.

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <filesystem>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/backend/backend_registry.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

TEST(process_group, is_the_world_of_a_job) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int rank) {
    const auto world = one.world();
    EXPECT_EQ(world.rank(), rank);
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.name(), "world");
    EXPECT_EQ(world.backend(), "troupe");
    EXPECT_EQ(world.timeout(), 30min);
    EXPECT_EQ(world.ranks(), (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(one.world(), world);
    const auto x = at::full({5}, rank + 1, at::kFloat);
    all_reduce(world, x);
    EXPECT_TRUE(at::equal(x, at::full({5}, 6, at::kFloat)));
    EXPECT_EQ(world.sequence_number(), 1u);
  });
  shut_down(nodes);
}

TEST(process_group, has_members_in_the_order_given) {
  auto nodes = local_nodes(rank_names(4));
  on_each(nodes, [&](const node& one, int rank) {
    const auto group = one.world().new_group({3, 0, 2}, {.description = "three"});
    EXPECT_EQ(group.is_member(), rank != 1);
    EXPECT_EQ(group.ranks(), (std::vector<std::uint32_t>{3, 0, 2}));
    if (rank == 1) {
      EXPECT_EQ(group.rank(), -1);
      EXPECT_EQ(group.size(), -1);
      const auto x = at::ones({2});
      all_reduce(group, x);  // does nothing
      EXPECT_TRUE(at::equal(x, at::ones({2})));
      EXPECT_FALSE(all_reduce(group, x, async).valid());
      return;
    }
    EXPECT_EQ(group.size(), 3);
    EXPECT_EQ(group.rank(), rank == 3 ? 0 : rank == 0 ? 1 : 2);
    EXPECT_EQ(group.description(), "three");
    EXPECT_EQ(group.global_rank(0), 3u);
    EXPECT_EQ(group.group_rank(2), 2);
    EXPECT_THAT(thrown_text<invalid_argument>([&] { group.group_rank(1); }),
                HasSubstr("Global rank 1 is not part of group world/3,0,2:three#0"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { group.global_rank(3); }),
                HasSubstr("Group rank 3 is not part of group"));
    const auto x = at::full({2}, rank, at::kLong);
    broadcast(group, x, 0);
    EXPECT_TRUE(at::equal(x, at::full({2}, 3, at::kLong)));
  });
}

TEST(process_group, refuses_ranks_that_cannot_be) {
  auto nodes = local_nodes(rank_names(2));
  const auto world = nodes[0].world();
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_group({0, 2});
              }),
              HasSubstr("The new group's rank should be within the world_size set by "
                        "init_process_group"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_group({0, 1, 0});
              }),
              HasSubstr("the new group's world size should be less or equal to the world size"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_group({1, 1});
              }),
              HasSubstr("cannot have duplicate ranks"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] { world.new_subgroups(3); }),
              HasSubstr("The arg 'group_size' (3) must not exceed the world size (2)"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_subgroups_by_enumeration({{0, 1}, {1}});
              }),
              HasSubstr("Rank 1 has appeared in both subgroup [0, 1] and [1]"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_group({0, 1}, {.backend = "gloo"});
              }),
              HasSubstr("Unknown c10d backend type GLOO"));
  EXPECT_THAT(thrown_text<invalid_argument>([&] {
                world.new_group({0, 1}, {.backend = "cpu:troupe:x"});
              }),
              HasSubstr("Invalid device:backend pairing: cpu:troupe:x."));
  EXPECT_THAT(thrown_text<invalid_argument>([&] { process_group().rank(); }),
              HasSubstr("Invalid process group specified"));
}

TEST(process_group, splits_by_colour_and_key) {
  auto nodes = local_nodes(rank_names(5));
  on_each(nodes, [&](const node& one, int rank) {
    const auto part = one.world().split(rank == 4 ? -1 : rank % 2, -rank);
    if (rank == 4) {
      EXPECT_FALSE(part.is_member());
      return;
    }
    EXPECT_EQ(part.size(), 2);
    EXPECT_EQ(part.rank(), rank < 2 ? 1 : 0);
    const auto x = at::full({1}, rank, at::kInt);
    all_reduce(part, x);
    EXPECT_EQ(x.item<int>(), rank % 2 == 0 ? 2 : 4);
  });
}

TEST(process_group, is_divided_into_subgroups) {
  auto nodes = local_nodes(rank_names(4));
  on_each(nodes, [&](const node& one, int rank) {
    const auto [mine, all] = one.world().new_subgroups(2);
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(mine, all[static_cast<std::size_t>(rank / 2)]);
    EXPECT_EQ(mine.rank(), rank % 2);
    EXPECT_EQ(mine.ranks().front(), rank < 2 ? 0u : 2u);
    EXPECT_EQ(thrown_text<invalid_argument>([&] { one.world().new_subgroups(3); }),
              "The world size (4) must be divisible by 'group_size=3'");
  });
}

TEST(process_group, is_made_again_and_again) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int) {
    for (int i = 0; i < 20; ++i) {
      const auto group = one.world().new_group({0, 1, 2});
      const auto x = at::ones({1}, at::kInt);
      all_reduce(group, x);
      EXPECT_EQ(x.item<int>(), 3);
      if (i % 2 == 0) group.destroy();
    }
  });
}

TEST(process_group, is_made_by_several_threads_at_once) {
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [&](const node& one, int) {
    std::vector<int> threads(4);
    on_each(threads, [&](int, int thread) {
      // Each thread of a rank meets the threads of the others that make its group.
      const auto group =
          one.world().new_group({0, 1, 2}, {.description = "of thread " + std::to_string(thread)});
      for (int i = 0; i < 10; ++i) {
        const auto x = at::full({3}, thread, at::kInt);
        all_reduce(group, x);
        EXPECT_EQ(x[0].item<int>(), 3 * thread);
      }
    });
  });
}

TEST(process_group, takes_nothing_after_its_end) {
  auto nodes = local_nodes(rank_names(2));
  const auto group = [&] {
    std::vector<process_group> made(2);
    on_each(nodes, [&](const node& one, int rank) {
      made[static_cast<std::size_t>(rank)] = one.world().new_group({0, 1});
    });
    return made;
  }();
  const auto x = at::ones({1});
  auto waits = all_reduce(group[1], x, async);
  group[0].destroy();
  EXPECT_THAT(thrown_text<group_failed>([&] { all_reduce(group[0], x); }),
              HasSubstr("has been destroyed on rank 0"));
  // The backend or the network tells: in either case who and why.
  EXPECT_THAT(thrown_text<group_failed>([&] { waits.wait(); }),
              testing::AllOf(HasSubstr("all_reduce, sequence number 1 of group 'world/0,1#0', on "
                                       "rank 1: rank 0 has "),
                             HasSubstr("destroyed")));
  EXPECT_THAT(thrown_text<group_failed>([&] { barrier(group[1]); }),
              HasSubstr("takes no more operations"));
}

TEST(process_group, may_not_be_used_after_its_node) {
  auto nodes = local_nodes(rank_names(2));
  const auto world = nodes[0].world();
  shut_down(nodes);
  EXPECT_THROW(barrier(world), error);
  EXPECT_THROW(nodes[0].world(), not_initialized);
  nodes.clear();
  EXPECT_THROW(barrier(world), error);
  EXPECT_EQ(world.rank(), 0);
}

TEST(process_group, is_gone_when_any_destroy_returns) {
  for (int i = 0; i < 20; ++i) {
    local_group all(2);
    std::vector<int> threads(3);
    auto waits = all_reduce(all.groups[0], at::ones({1}), async);
    on_each(threads, [&](int, int thread) {
      if (thread == 2) {
        // Meanwhile somebody asks.
        try {
          all.groups[0].member("a test")->backend_of(groups::operation_kind::barrier, at::kFloat,
                                                     at::kCPU);
        } catch (const group_failed&) {
        }
        return;
      }
      all.groups[0].destroy();
      EXPECT_TRUE(waits.is_completed());
    });
  }
}

TEST(process_group, writes_no_trace_when_its_node_ends_well) {
  const temporary_folder folder;
  auto nodes = local_nodes(rank_names(2));
  std::vector<process_group> groups(2);
  on_each(nodes, [&](const node& one, int rank) {
    auto& group = groups[static_cast<std::size_t>(rank)];
    group = one.world().new_group({0, 1}, {.trace_directory = folder.path().string()});
    barrier(group);
  });
  shut_down(nodes);
  for (const auto& one : groups) EXPECT_THROW(barrier(one), error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(process_group, differs_from_what_others_make) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int rank) {
    EXPECT_THAT(
        thrown_text<collective_mismatch>([&] {
          one.world().new_group({0, 1}, {.name = "odd", .timeout = rank == 0 ? 1000ms : 2000ms});
        }),
        HasSubstr("disagree on what it is"));
  });
}

TEST(process_group, is_made_of_one_whose_ranks_wait_for_different_times) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int rank) {
    const auto world = one.world();
    world.set_timeout(rank == 0 ? 5s : 6s);
    const auto made = world.new_group({0, 1});
    EXPECT_EQ(made.timeout(), world.timeout());
    barrier(made);
    EXPECT_EQ(world.split(0, rank).timeout(), world.timeout());
  });
}

TEST(process_group, gives_each_of_several_a_name_of_its_own) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int rank) {
    const auto parts = one.world().split(rank, 0, {.name = "half"});
    EXPECT_EQ(parts.name(), rank == 0 ? "half/0" : "half/1");
    const auto [mine, all] = one.world().new_subgroups(1, {.name = "single"});
    EXPECT_EQ(mine.name(), rank == 0 ? "single/0" : "single/1");
  });
}

TEST(process_group, writes_traces_of_long_names) {
  const temporary_folder folder;
  auto nodes = local_nodes(rank_names(1));
  const auto stem = std::string(300, 'x');
  for (const auto* end : {"a:b", "a/b"}) {
    const auto group = nodes[0].world().new_group({0}, {.name = stem + end});
    barrier(group);
    EXPECT_TRUE(std::filesystem::exists(group.write_trace(folder.path())));
  }
  const auto files = std::filesystem::directory_iterator(folder.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST(process_group, has_no_options_that_nothing_reads) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int) {
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  one.world().new_group({0, 1}, {.backend_options = {{"colectives", "auto"}}});
                }),
                HasSubstr("has an option 'colectives'"));
  });
}

TEST(backend_registry, knows_devices) {
  const auto none = [](const groups::backend_request&) -> std::unique_ptr<groups::backend> {
    return nullptr;
  };
  for (const auto* device : {"gpu", "", "cuda:1"})
    EXPECT_THAT(thrown_text<invalid_argument>(
                    [&] { groups::register_backend("of_no_device", {device}, none); }),
                HasSubstr("which libtorch does not know"));
  EXPECT_FALSE(groups::is_backend_available("of_no_device"));
}

TEST(init_process_group, begins_and_ends_twenty_times) {
  for (int i = 0; i < 20; ++i) {
    const temporary_folder folder;
    std::vector<int> ranks(2);
    on_each(ranks, [&](int, int rank) {
      const auto group =
          init_process_group("cpu:troupe",
                             {.rank = static_cast<std::uint32_t>(rank),
                              .world_size = 2u,
                              .init_method = "file://" + (folder.path() / "meet").string()},
                             {.description = "alone", .timeout = 60s});
      EXPECT_EQ(group.rank(), rank);
      EXPECT_EQ(group.description(), "alone");
      EXPECT_EQ(group.timeout(), 60s);
      const auto x = at::full({3}, rank, at::kInt);
      all_reduce(group, x);
      EXPECT_EQ(x[0].item<int>(), 1);
      destroy_process_group(group);
      EXPECT_THROW(barrier(group), group_failed);
    });
  }
}

TEST(init_process_group, keeps_its_node_for_groups_made_of_it) {
  const temporary_folder folder;
  std::vector<int> ranks(2);
  on_each(ranks, [&](int, int rank) {
    auto group = init_process_group("troupe",
                                    {.rank = static_cast<std::uint32_t>(rank),
                                     .world_size = 2u,
                                     .init_method = "file://" + (folder.path() / "meet").string()},
                                    {.timeout = 60s});
    barrier(group);
    // The first handle goes.
    group = group.new_group({0, 1});
    const auto x = at::full({3}, rank, at::kInt);
    all_reduce(group, x);
    EXPECT_EQ(x[0].item<int>(), 1);
    const auto part = group.split(0);
    group = process_group();
    // Only a group of its own ends: the node goes on.
    destroy_process_group(part.new_group({0, 1}));
    barrier(part);
    if (rank == 1) return;
    auto left = part.shrink({1});
    EXPECT_EQ(left.size(), 1);
    barrier(left);
  });
}

TEST(init_process_group, ends_its_node_with_the_shrunk_world) {
  const temporary_folder folder;
  std::vector<int> ranks(2);
  on_each(ranks, [&](int, int rank) {
    auto group = init_process_group("troupe",
                                    {.rank = static_cast<std::uint32_t>(rank),
                                     .world_size = 2u,
                                     .init_method = "file://" + (folder.path() / "meet").string()},
                                    {.timeout = 60s});
    barrier(group);
    if (rank == 1) return destroy_process_group(group);
    group = group.shrink({1});
    barrier(group);
    EXPECT_NE(group.owned_node(), nullptr);
    destroy_process_group(group);
    EXPECT_THROW(barrier(group), group_failed);
  });
}

TEST(init_process_group, knows_its_backends) {
  EXPECT_THAT(thrown_text<invalid_argument>([] { init_process_group("cpu:gloo"); }),
              HasSubstr("Unknown c10d backend type GLOO"));
  EXPECT_THAT(thrown_text<invalid_argument>(
                  [] { init_process_group("troupe", {}, {.backend = "network"}); }),
              HasSubstr("give one of them"));
}

}  // namespace
}  // namespace troupe::test
