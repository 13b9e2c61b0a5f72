// Many groups that block in handlers, on nodes that have few threads.

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <troupe/troupe.hpp>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

constexpr int group_count = 64;

// By rank; of the test that runs.
std::vector<std::vector<process_group>> groups_by_rank;

const process_group& group_here(int number) {
  return groups_by_rank.at(this_node().rank()).at(static_cast<std::size_t>(number));
}

int sum_in(int number) {
  const auto x = at::full({1}, number, at::kInt);
  all_reduce(group_here(number), x);
  return x.item<int>();
}

int sum_later_in(int number) {
  const auto x = at::full({1}, number, at::kInt);
  all_reduce(group_here(number), x, async).wait();
  all_reduce(group_here(number), x, async).wait(time_limit);
  return x.item<int>() / 2;
}

int exchange_in(int number) {
  const auto& group = group_here(number);
  const auto x = at::full({1}, number, at::kInt), y = at::full({1}, -1, at::kInt);
  send(group, x, 1 - group.rank());
  recv(group, y, 1 - group.rank());
  return x.item<int>() + y.item<int>();
}

int fail_in(int number) {
  try {
    barrier(group_here(number));
  } catch (const collective_timeout& e) {
    return std::string(e.what()).find("is missing") != std::string::npos ? 1 : 2;
  }
  return 0;
}

class blocked_groups : public testing::TestWithParam<const char*> {
protected:
  // Two nodes with four threads each, and one that calls them.
  void start(std::chrono::milliseconds timeout = time_limit) {
    rpc_options options;
    options.max_threads = 4;
    nodes = local_nodes(rank_names(3), options);
    groups_by_rank.assign(2, {});
    on_each(groups_by_rank, [&](std::vector<process_group>& mine, int rank) {
      for (int i = 0; i < group_count; ++i)
        mine.push_back(nodes[static_cast<std::size_t>(rank)].world().new_group(
            {0, 1}, {.timeout = timeout, .backend = GetParam()}));
    });
  }
  ~blocked_groups() override { groups_by_rank.clear(); }

  // On the two nodes in opposite orders: the first four of one are the last of the other.
  template <auto F>
  void check() {
    std::vector<future<int>> calls;
    for (int i = 0; i < group_count; ++i) {
      calls.push_back(nodes[2].rpc_async<F>("w0", i, troupe::timeout(0ms)));
      calls.push_back(nodes[2].rpc_async<F>("w1", group_count - 1 - i, troupe::timeout(0ms)));
    }
    for (int i = 0; i < group_count; ++i) {
      EXPECT_EQ(calls[static_cast<std::size_t>(2 * i)].get_for(time_limit), 2 * i);
      EXPECT_EQ(calls[static_cast<std::size_t>(2 * i + 1)].get_for(time_limit),
                2 * (group_count - 1 - i));
    }
  }

  std::vector<node> nodes;
};

TEST_P(blocked_groups, finish_on_few_threads) {
  start();
  check<&sum_in>();
  check<&sum_later_in>();
  check<&exchange_in>();
}

// One side never comes.
TEST_P(blocked_groups, err_by_name) {
  start(200ms);
  std::vector<future<int>> calls;
  for (int i = 0; i < group_count; ++i)
    calls.push_back(nodes[2].rpc_async<&fail_in>("w0", i, troupe::timeout(0ms)));
  for (auto& one : calls) EXPECT_EQ(one.get_for(time_limit), 1);
}

INSTANTIATE_TEST_SUITE_P(backends, blocked_groups, testing::Values("cpu:troupe", "cpu:network"),
                         [](const auto& info) {
                           return std::string(info.param) == "cpu:troupe" ? "shared" : "messages";
                         });

}  // namespace
}  // namespace troupe::test
