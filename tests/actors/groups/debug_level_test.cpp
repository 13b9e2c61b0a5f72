// What process groups say and check at each debug level.

#include "troupe/actors/groups/tracing/debug_level.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "tests/log_lines.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class debug_levels : public testing::Test {
protected:
  ~debug_levels() override {
    unsetenv("TROUPE_DEBUG");
    set_debug_level(debug_level::off);
  }

  // Ten elements on rank 0, and as many in two rows on rank 1.
  static at::Tensor ten(int rank) {
    const auto x = at::arange(10, at::kFloat);
    return rank == 0 ? x : x.view({2, 5});
  }
};

TEST_F(debug_levels, are_named_by_the_environment) {
  EXPECT_EQ(get_debug_level(), debug_level::off);
  unsetenv("TROUPE_DEBUG");
  EXPECT_EQ(debug_level_from_env(), debug_level::off);
  setenv("TROUPE_DEBUG", "DETAIL", 1);
  EXPECT_EQ(debug_level_from_env(), debug_level::detail);
  EXPECT_EQ(get_debug_level(), debug_level::off);
  set_debug_level_from_env();
  EXPECT_EQ(get_debug_level(), debug_level::detail);
  setenv("TROUPE_DEBUG", "info", 1);
  set_debug_level_from_env();
  EXPECT_STREQ(to_string(get_debug_level()), "info");
  setenv("TROUPE_DEBUG", "loud", 1);
  EXPECT_THAT(
      thrown_text<invalid_argument>([] { set_debug_level_from_env(); }),
      HasSubstr("The value of TROUPE_DEBUG must be one of off, info, or detail. Found: loud"));
  EXPECT_EQ(get_debug_level(), debug_level::info);
}

TEST_F(debug_levels, compare_shapes_at_detail_alone) {
  {
    local_group all(2);
    all.run([](const process_group& group, int rank) {
      const auto x = ten(rank);
      all_reduce(group, x);
      EXPECT_EQ(x.sum().item<float>(), 90);
    });
  }
  set_debug_level(debug_level::detail);
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto x = ten(rank);
    const auto text = thrown_text<collective_mismatch>([&] { all_reduce(group, x); });
    EXPECT_THAT(text,
                AllOf(HasSubstr("Error when verifying shape tensors for collective ALLREDUCE on "
                                "rank " +
                                std::to_string(rank) +
                                ". This likely indicates that input shapes into the collective are "
                                "mismatched across ranks. Got shapes: [10] on rank 0; [2, 5] on "
                                "rank 1"),
                      HasSubstr("rank 0 ('w0') has called all_reduce(sum) of 10 elements of Float, "
                                "sequence number 1, shapes [10], at\nframe #"),
                      HasSubstr("rank 1 ('w1') has called"), HasSubstr("shapes [2, 5], at\n")));
    EXPECT_EQ(x.sum().item<float>(), 45);  // nothing was written
    EXPECT_THROW(barrier(group), group_failed);
  });
}

TEST_F(debug_levels, compare_shapes_in_lists_at_detail) {
  set_debug_level(debug_level::detail);
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [](const node& one, int rank) {
    const auto text_of = [&](const auto& call) {
      const auto group = one.world().new_group({0, 1});
      return thrown_text<collective_mismatch>([&] { call(group); });
    };
    // Rank 0 expects three elements of rank 1, which has two rows of two.
    EXPECT_THAT(
        text_of([&](const process_group& group) {
          const auto mine = rank == 0 ? at::ones({3}) : at::ones({2, 2});
          all_gather(group, {at::ones({3}), rank == 0 ? at::ones({3}) : at::ones({2, 2})}, mine);
        }),
        AllOf(HasSubstr("Error when verifying shape tensors for collective ALLGATHER"),
              HasSubstr("Got shapes: inputs [3], outputs [3], [3] on rank 0; inputs [2, "
                        "2], outputs [3], [2, 2] on rank 1 (rank 1 has 4 elements for "
                        "rank 0, which takes 3)"),
              HasSubstr("rank 1 ('w1') has called all_gather"), HasSubstr("at\nframe #")));
    EXPECT_THAT(text_of([&](const process_group& group) {
                  std::vector<at::Tensor> parts;
                  if (rank == 0) parts = {at::ones({2}), at::ones({2})};
                  scatter(group, at::ones({rank == 0 ? 2 : 5}), parts, 0);
                }),
                HasSubstr("(rank 0 has 2 elements for rank 1, which takes 5)"));
    EXPECT_THAT(text_of([&](const process_group& group) {
                  const std::vector<std::int64_t> splits{rank == 0 ? 1 : 2, rank == 0 ? 3 : 2};
                  all_to_all_single(group, at::ones({4}), at::ones({4}), splits, splits);
                }),
                HasSubstr("(rank 0 has 3 elements for rank 1, which takes 2)"));
  });
}

TEST_F(debug_levels, compare_operations_with_call_stacks_at_detail) {
  set_debug_level(debug_level::detail);
  auto nodes = local_nodes(rank_names(3));
  on_each(nodes, [](const node& one, int rank) {
    check_disagreements([&] { return one.world().new_group({0, 1, 2}); }, rank);
    const auto group = one.world().new_group({0, 1, 2});
    EXPECT_THAT(thrown_text<collective_mismatch>(
                    [&] { rank == 1 ? barrier(group) : all_reduce(group, at::ones({4})); }),
                AllOf(HasSubstr("rank 1 asked for barrier"),
                      HasSubstr("rank 1 ('w1') has called barrier, sequence number 1, shapes none, "
                                "at\nframe #")));
  });
}

TEST_F(debug_levels, change_no_results) {
  set_debug_level(debug_level::detail);
  local_group all(3);
  all.run([](const process_group& group, int) {
    check_broadcast(group, at::kFloat, 1000);
    check_gathers(group, at::kFloat, 1000);
    check_all_to_all(group, at::kInt, 1000);
    check_reductions(group, at::kDouble, reduce_op::sum, 1000);
    check_coalesced(group);
  });
}

TEST_F(debug_levels, count_when_the_members_meet) {
  local_group before(2);
  set_debug_level(debug_level::detail);
  before.run([](const process_group& group, int rank) { all_reduce(group, ten(rank)); });
  local_group all(2);
  set_debug_level(debug_level::off);
  all.run([](const process_group& group, int rank) {
    EXPECT_THAT(thrown_text<collective_mismatch>([&] { all_reduce(group, ten(rank)); }),
                HasSubstr("Error when verifying shape tensors"));
  });
}

TEST_F(debug_levels, name_shapes_and_calls_of_what_was_late) {
  set_debug_level(debug_level::detail);
  local_group all(2, {.timeout = 100ms});
  EXPECT_THAT(thrown_text<collective_timeout>([&] { all_reduce(all.groups[0], ten(1)); }),
              AllOf(HasSubstr("timed out after 100 ms: rank 1 is missing"),
                    HasSubstr("rank 0 ('w0') has called all_reduce(sum) of 10 elements of Float, "
                              "sequence number 1, inputs , outputs [2, 5], at\nframe #")));
}

TEST_F(debug_levels, put_shapes_and_calls_into_traces) {
  set_debug_level(debug_level::detail);
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    all_reduce(group, at::ones({2, 3}));
    set_debug_level(debug_level::off);
    barrier(group);
    const auto first = nlohmann::json::parse(group.trace()).at("operations").at(0);
    EXPECT_EQ(first.at("output_shapes"), "[2, 3]") << rank;
    EXPECT_EQ(first.at("input_shapes"), "");
    EXPECT_THAT(first.at("stack").get<std::string>(), HasSubstr("frame #"));
  });
  all.run([](const process_group& group, int) {
    barrier(group);
    const auto last = nlohmann::json::parse(group.trace()).at("operations").at(2);
    EXPECT_FALSE(last.contains("stack"));
  });
}

TEST_F(debug_levels, log_groups_from_info_on) {
  const auto lines = [](debug_level level) {
    set_debug_level(level);
    const log_lines seen(spdlog::level::info);
    local_group all(2);
    all.groups[0].abort();
    EXPECT_TRUE(eventually([&] {
      return !thrown_text<group_failed>([&] {
                all.groups[1].member("a test")->check_usable();
              }).empty();
    }));
    return seen.text();
  };
  EXPECT_THAT(lines(debug_level::off), Not(HasSubstr("was made")));
  EXPECT_THAT(lines(debug_level::info),
              AllOf(HasSubstr("group 'world/0,1#0' was made: rank 1 of 2, backends shared"),
                    HasSubstr("has failed on rank 0: group 'world/0,1#0' was aborted")));
}

}  // namespace
}  // namespace troupe::test
