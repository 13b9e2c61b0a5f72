// Collectives through hosts of several ranks, beside the reference.

#include <ATen/ops/empty.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "tests/actors/groups/network_groups.hpp"

namespace troupe::test {
namespace {

class hosts_collectives : public testing::TestWithParam<std::pair<int, int>> {};

// All that goes through hosts, with many stripes; in the order of the ranks, so bits are compared.
TEST_P(hosts_collectives, give_the_same_bits) {
  const auto [size, hosts] = GetParam();
  local_group all(size,
                  ruled("hosts", "network.piece=16384,network.hosts=" + std::to_string(hosts)));
  all.run([](const process_group& group, int) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kInt})
      for (const auto op : {reduce_op::sum, reduce_op::min, reduce_op::avg})
        check_reductions(group, dtype, op, 70'001);
    check_reductions(group, at::kDouble, reduce_op::premul_sum, 40'001);
    check_reductions(group, at::kInt, reduce_op::bxor, 20'001);
    check_broadcast(group, at::kFloat, 70'001);
    check_gathers(group, at::kFloat, 70'001);
    check_coalesced(group);
    check_in_place(group);
  });
}

// Numbers whose sum depends on the order.
TEST_P(hosts_collectives, combine_in_the_order_of_the_ranks) {
  const auto [size, hosts] = GetParam();
  const auto rules = "network.piece=16384,network.hosts=" + std::to_string(hosts);
  std::vector<at::Tensor> inputs;
  for (int rank = 0; rank < size; ++rank) {
    auto x = at::empty({50'000});
    auto* values = x.mutable_data_ptr<float>();
    for (int i = 0; i < 50'000; ++i)
      values[i] = 1.0F / static_cast<float>(1 + (i * 7919 + rank * 104'729) % 10'007);
    inputs.push_back(x);
  }
  for (const auto op : {reduce_op::sum, reduce_op::product, reduce_op::avg}) {
    std::vector<at::Tensor> results(inputs.size()), expected(inputs.size());
    local_group by_hosts(size, ruled("hosts", rules)), by_messages(size, ruled("network", ""));
    by_hosts.run([&](const process_group& group, int rank) {
      results[static_cast<std::size_t>(rank)] = inputs[static_cast<std::size_t>(rank)].clone();
      all_reduce(group, results[static_cast<std::size_t>(rank)], op);
    });
    by_messages.run([&](const process_group& group, int rank) {
      expected[static_cast<std::size_t>(rank)] = inputs[static_cast<std::size_t>(rank)].clone();
      all_reduce(group, expected[static_cast<std::size_t>(rank)], op);
    });
    for (std::size_t rank = 0; rank < results.size(); ++rank)
      EXPECT_TRUE(same_bits(results[rank], expected[0])) << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(grids, hosts_collectives,
                         testing::Values(std::pair(4, 2), std::pair(6, 3), std::pair(6, 2)));

}  // namespace
}  // namespace troupe::test
