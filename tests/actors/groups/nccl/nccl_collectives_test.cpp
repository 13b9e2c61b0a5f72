// Collectives by the double of NCCL, beside the reference: those that every backend has to pass,
// and what NCCL lacks.

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/nccl/nccl_testing.hpp"
#include "troupe/actors/groups/nccl/nccl_operations.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

class nccl_collectives : public testing::TestWithParam<int> {
protected:
  void on_all(const std::function<void(const process_group&)>& body) {
    local_group all(GetParam(), on_nccl_double());
    run_on_devices(all, [&](const process_group& group, int rank) {
      const conformance_device here(device_of_rank(rank));
      body(group);
    });
  }
};

std::vector<at::ScalarType> nccl_dtypes_of(int size) {
  return size > 2 ? std::vector{at::kBool, at::kBFloat16, at::kFloat} : moved_dtypes();
}

TEST_P(nccl_collectives, move_every_dtype) {
  on_all([](const process_group& group) {
    for (const auto dtype : nccl_dtypes_of(group.size())) {
      for (const std::int64_t count : {0, 13}) {
        check_broadcast(group, dtype, count);
        check_gathers(group, dtype, count);
        check_all_to_all(group, dtype, count);
      }
    }
    check_broadcast(group, at::kFloat, 200'003);
    check_gathers(group, at::kFloat, 200'003);
    check_all_to_all(group, at::kFloat, 50'003);
  });
}

TEST_P(nccl_collectives, combine_every_dtype_that_nccl_has) {
  on_all([](const process_group& group) {
    for (const auto dtype : nccl_dtypes_of(group.size()))
      for (const auto op : reductions_of(dtype))
        if (groups::nccl::can_reduce(op, dtype) && op != reduce_op::avg)
          check_reductions(group, dtype, op, 13);
    check_reductions(group, at::kFloat, reduce_op::avg, 5);
    check_reductions(group, at::kFloat, reduce_op::sum, 70'001);
  });
}

TEST_P(nccl_collectives, take_several_tensors) { on_all(&check_coalesced); }
TEST_P(nccl_collectives, take_tensors_of_any_shape) { on_all(&check_shapes); }
TEST_P(nccl_collectives, write_in_place) { on_all(&check_in_place); }

INSTANTIATE_TEST_SUITE_P(sizes, nccl_collectives, testing::Values(1, 2, 4));

// What NCCL cannot do is refused on all ranks, and the group goes on.
TEST(nccl_refusals, leave_the_group_as_it_was) {
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto here = device_of_rank(rank);
    const auto numbers = at::full({4}, rank + 1, at::TensorOptions(at::kInt).device(here));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { all_reduce(group, numbers, reduce_op::band); }),
                HasSubstr("Cannot use ReduceOp.BAND with NCCL on tensors of Int"));
    const auto shorts = at::full({4}, 1, at::TensorOptions(at::kShort).device(here));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { all_reduce(group, shorts); }),
                HasSubstr("Cannot use ReduceOp.SUM with NCCL on tensors of Short"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { recv(group, numbers, any_source); }),
                HasSubstr("NCCL has no receive from any source"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { send(group, numbers, 1 - rank, 3); }),
                HasSubstr("NCCL knows no tags"));
    const auto elsewhere =
        at::full({4}, 1, at::TensorOptions(at::kInt).device(device_of_rank(rank + 1)));
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  all_reduce_coalesced(group, {numbers, elsewhere});
                }),
                HasSubstr("Invalid usage of tensors on different devices"));
    all_reduce(group, numbers);
    EXPECT_TRUE(same_bits(numbers, at::full({4}, 3, at::kInt)));
  });
}

TEST(nccl_reductions, multiply_first_and_accumulate_in_float32) {
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto options = at::TensorOptions(at::kFloat).device(device_of_rank(rank));
    const auto x = at::full({3}, 2, options);
    all_reduce(group, x, premul_sum(rank + 0.5));
    EXPECT_TRUE(same_bits(x, at::full({3}, 4, at::kFloat)));
    // In half each addition would lose the one.
    const auto half = at::full({3}, rank == 0 ? 2048 : 1, options.dtype(at::kHalf));
    all_reduce(group, half, premul_sum(2));
    EXPECT_TRUE(same_bits(half, at::full({3}, 4098, at::kHalf)));
  });
}

TEST(nccl_messages, go_between_two_ranks) {
  local_group all(2, on_nccl_double());
  run_on_devices(all, [](const process_group& group, int rank) {
    const auto options = at::TensorOptions(at::kFloat).device(device_of_rank(rank));
    for (const std::int64_t count : {1, 100'000}) {
      const auto x = at::full({count}, rank == 0 ? 7 : 0, options);
      if (rank == 0)
        send(group, x, 1);
      else
        EXPECT_EQ(recv(group, x, 0), 0);
      EXPECT_TRUE(same_bits(x, at::full({count}, 7, at::kFloat)));
      const auto mine = at::full({count}, rank, options), other = at::zeros({count}, options);
      const auto works = batch_isend_irecv({{p2p_op::direction::isend, mine, 1 - rank, group},
                                            {p2p_op::direction::irecv, other, 1 - rank, group}});
      for (const auto& one : works) one.wait();
      EXPECT_TRUE(same_bits(other, at::full({count}, 1 - rank, at::kFloat)));
    }
  });
}

// COL-25: a group without a backend for the device.
TEST(nccl_conformance_by_host, tensors_of_devices_go_through_the_host) {
  register_nccl_double();
  for (const char* backend : {"troupe", "network", "cpu:troupe,sim:network"}) {
    local_group all(2, {.backend = backend});
    run_on_devices(all, [](const process_group& group, int rank) {
      const conformance_device here(device_of_rank(rank));
      check_broadcast(group, at::kFloat, 13);
      check_gathers(group, at::kShort, 13);
      check_all_to_all(group, at::kBFloat16, 13);
      for (const auto op : reductions_of(at::kInt)) check_reductions(group, at::kInt, op, 13);
      check_coalesced(group);
      check_shapes(group);
      check_in_place(group);
      const auto options = at::TensorOptions(at::kFloat).device(device_of_rank(rank));
      const auto x = at::full({100'000}, rank + 1, options);
      const auto started = all_reduce(group, x, async);
      started.wait();
      EXPECT_TRUE(same_bits(x, at::full({100'000}, 3, at::kFloat)));
      const auto mine = at::full({5}, rank, options), other = at::zeros({5}, options);
      const auto coming = irecv(group, other, 1 - rank, 2);
      send(group, mine, 1 - rank, 2);
      coming.wait();
      EXPECT_TRUE(same_bits(other, at::full({5}, 1 - rank, at::kFloat)));
    });
  }
}

TEST(nccl_conformance_by_host, a_device_that_was_not_named_is_refused) {
  register_nccl_double();
  local_group all(1, {.backend = "cpu:troupe"});
  const auto x = at::zeros({2}, at::TensorOptions(at::kFloat).device(device_of_rank(0)));
  EXPECT_THAT(thrown_text<invalid_argument>([&] { all_reduce(all.groups[0], x); }),
              HasSubstr("No backend type associated with device type sim"));
}

}  // namespace
}  // namespace troupe::test
