// Operations that were started: handles, order, futures.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>

#include <future>
#include <limits>
#include <thread>
#include <troupe/troupe.hpp>

#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

TEST(work, ends_well) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto x = at::full({4}, rank + 1, at::kInt);
    const auto started = all_reduce(group, x, async);
    EXPECT_TRUE(started.valid());
    EXPECT_EQ(started.sequence_number(), 1u);
    EXPECT_EQ(started.name(), "all_reduce");
    started.wait();
    EXPECT_TRUE(started.is_completed());
    EXPECT_TRUE(started.is_success());
    EXPECT_EQ(started.exception(), nullptr);
    EXPECT_GT(started.duration().count(), 0);
    EXPECT_EQ(x[0].item<int>(), 3);
    EXPECT_TRUE(started.result().at(0).is_same(x));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { started.source_rank(); }),
                HasSubstr("has no source rank"));
    const auto later = barrier(group, async);
    EXPECT_EQ(later.sequence_number(), 2u);
    later.synchronize();
    EXPECT_THROW(work().wait(), invalid_argument);
  });
}

TEST(work, waits_no_longer_than_it_is_told) {
  local_group all(2);
  const auto x = at::ones({1});
  const auto started = all_reduce(all.groups[0], x, async);
  EXPECT_THAT(
      thrown_text<collective_timeout>([&] { started.wait(20ms); }),
      HasSubstr("all_reduce, sequence number 1 of group 'world/0,1#0', on rank 0, timed out "
                "after 20 ms"));
  EXPECT_FALSE(started.is_completed());
  EXPECT_EQ(started.duration().count(), 0);
  EXPECT_THROW(started.is_success(), invalid_argument);
  all_reduce(all.groups[1], at::ones({1}));
  started.wait();
  EXPECT_EQ(x.item<float>(), 2);
}

TEST(work, continues_as_a_future) {
  local_group all(2);
  all.run([](const process_group& group, int) {
    const auto x = at::full({2}, 3, at::kFloat);
    const auto half = all_reduce(group, x, async)
                          .get_future()
                          .then([](const std::vector<at::Tensor>& sums) { return sums[0].div(2); })
                          .then([](const at::Tensor& mean) { return mean.mul(10); });
    EXPECT_EQ(half.get()[1].item<float>(), 30);
  });
}

task<float> summed(process_group group, float mine) {
  const auto x = at::full({1}, mine, at::kFloat);
  co_await all_reduce(group, x, async).get_future();
  const auto again = co_await all_reduce(group, x, reduce_op::max, async).get_future();
  co_return again[0].item<float>();
}

TEST(work, is_awaited_in_coroutines) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    EXPECT_EQ(summed(group, static_cast<float>(rank)).get(), 3);
  });
}

TEST(work, runs_in_the_order_in_which_it_was_started) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    constexpr int count = 1000;
    const auto x = at::full({2}, rank, at::kLong);
    std::vector<work> started;
    for (int i = 0; i < count; ++i) {
      // Each depends on the one before, which must not have been overtaken.
      started.push_back(broadcast(group, x, i % 3, async));
      if (i == count / 2) started.push_back(all_reduce(group, x, reduce_op::max, async));
    }
    const auto y = at::full({1}, rank, at::kLong);
    all_reduce(group, y);  // waits its turn
    EXPECT_EQ(y.item<std::int64_t>(), 3);
    for (std::size_t i = 0; i < started.size(); ++i) {
      EXPECT_TRUE(started[i].is_completed());
      EXPECT_EQ(started[i].sequence_number(), i + 1);
    }
    EXPECT_EQ(x[1].item<std::int64_t>(), 0);
    EXPECT_EQ(group.sequence_number(), started.size() + 1);
  });
}

// The thread on which a collective has ended.
class ending_thread {
public:
  explicit ending_thread(const process_group& group) {
    group.on_completion(
        [last = last_](const completed_work&) { last->store(std::this_thread::get_id()); });
  }

  bool is_this() const { return last_->load() == std::this_thread::get_id(); }

private:
  std::shared_ptr<std::atomic<std::thread::id>> last_ =
      std::make_shared<std::atomic<std::thread::id>>();
};

// The queue's thread may have been faster now and then.
TEST(work, runs_on_the_thread_that_waits_for_it) {
  local_group all(2);
  all.run([](const process_group& group, int) {
    const ending_thread last(group);
    int by_wait = 0, by_get = 0;
    for (int i = 0; i < 400; ++i) {
      barrier(group, async).wait();
      by_wait += last.is_this();
      barrier(group, async).get_future().get();
      by_get += last.is_this();
    }
    EXPECT_GT(by_wait, 10);
    EXPECT_GT(by_get, 10);
  });
}

TEST(work, runs_although_nobody_waits_for_it) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto x = at::ones({1}, at::kInt);
    for (int i = 0; i < 20; ++i) {
      all_reduce(group, x, async).wait();
      const auto started = all_reduce(group, x, reduce_op::max, async);
      // One rank waits, the other one only looks.
      if (rank == i % 2) started.wait();
      EXPECT_TRUE(eventually([&] { return started.is_completed(); }));
      // Nobody has any handle of it.
      barrier(group, async);
      const auto limited = barrier(group, async);
      limited.wait(60s);
    }
    EXPECT_EQ(x.item<int>(), 1 << 20);
  });
}

TEST(work, goes_on_when_the_group_has_no_handle_left) {
  local_group all(2);
  std::vector<work> started(2);
  all.run([&](const process_group& group, int rank) {
    started[static_cast<std::size_t>(rank)] = all_reduce(group, at::ones({1}), async);
  });
  all.groups.clear();
  on_each(started, [](const work& one, int) { one.wait(); });
}

TEST(work, of_different_groups_runs_side_by_side) {
  auto nodes = local_nodes(rank_names(2));
  std::vector<std::vector<process_group>> groups(2);
  on_each(nodes, [&](const node& one, int rank) {
    for (int i = 0; i < 8; ++i)
      groups[static_cast<std::size_t>(rank)].push_back(one.world().new_group({0, 1}));
  });
  on_each(groups, [](const std::vector<process_group>& mine, int rank) {
    // In opposite orders: a group that waited for another would wait for ever.
    std::vector<work> started;
    for (std::size_t i = 0; i < mine.size(); ++i)
      started.push_back(barrier(mine[rank == 0 ? i : mine.size() - 1 - i], async));
    for (const auto& one : started) one.wait(60s);
  });
}

TEST(work, tells_hooks_and_drains) {
  local_group all(2);
  std::atomic<int> told{0}, failed{0};
  all.run([&](const process_group& group, int rank) {
    group.on_completion([&](const completed_work& what) {
      ++told;
      if (what.exception) ++failed;
    });
    std::vector<work> started;
    for (int i = 0; i < 10; ++i) started.push_back(barrier(group, async));
    barrier(group);
    group.wait_for_pending();
    for (const auto& one : started) EXPECT_TRUE(one.is_completed());
    send(group, at::ones({1}), 1 - rank);
    recv(group, at::empty({1}, at::kFloat), 1 - rank);
  });
  EXPECT_EQ(told, 2 * 13);
  EXPECT_EQ(failed, 0);
}

TEST(work, is_waited_for_although_it_has_not_begun) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    for (int i = 0; i < 50; ++i) {
      std::vector<work> started;
      for (int j = 0; j < 3; ++j) started.push_back(all_reduce(group, at::ones({100}), async));
      if (rank == 1 && i % 10 == 0) std::this_thread::sleep_for(5ms);
      group.wait_for_pending();
      for (const auto& one : started) EXPECT_TRUE(one.is_completed());
    }
  });
}

TEST(work, is_waited_for_before_a_group_shrinks) {
  auto nodes = local_nodes(rank_names(3));
  std::vector<process_group> groups(3);
  on_each(nodes, [&](const node& one, int rank) {
    groups[static_cast<std::size_t>(rank)] = one.world().new_group({0, 1, 2});
  });
  on_each(groups, [](const process_group& group, int rank) {
    std::vector<work> started;
    for (int i = 0; i < 20; ++i) started.push_back(all_reduce(group, at::ones({100}), async));
    if (rank == 2) return group.wait_for_pending();
    const auto left = group.shrink({2});
    for (const auto& one : started) EXPECT_TRUE(one.is_success());
    EXPECT_EQ(left.completed_before(), 20u);
  });
}

TEST(work, of_four_threads_on_one_group_each) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [&](const node& one, int rank) {
    std::vector<process_group> groups;
    for (int i = 0; i < 4; ++i) groups.push_back(one.world().new_group({0, 1}));
    on_each(groups, [&](const process_group& group, int thread) {
      for (int i = 0; i < 50; ++i) {
        const auto x = at::full({3}, rank * thread, at::kInt);
        if (i % 2 == 0)
          all_reduce(group, x);
        else
          all_reduce(group, x, async).wait();
        EXPECT_EQ(x[2].item<int>(), thread);
      }
    });
  });
}

TEST(work, refuses_arguments_before_anything_is_sent) {
  local_group all(2);
  const auto& group = all.groups[0];
  const auto text = [](auto f) { return thrown_text<invalid_argument>(f); };
  const auto x = at::ones({4}), other = at::ones({4}, at::kDouble);
  EXPECT_THAT(text([&] { gather(group, x, {}, 0); }),
              HasSubstr("Argument ``gather_list`` must be specified on destination rank."));
  EXPECT_THAT(
      text([&] {
        gather(group, x, {x, x}, 1);
      }),
      HasSubstr("Argument ``gather_list`` must NOT be specified on non-destination ranks."));
  EXPECT_THAT(text([&] { scatter(group, x, {}, 0); }),
              HasSubstr("Argument ``scatter_list`` must be specified on source rank."));
  EXPECT_THAT(text([&] {
                scatter(group, x, {x, x}, 1);
              }),
              HasSubstr("Argument ``scatter_list`` must NOT be specified on non-source ranks."));
  EXPECT_THAT(text([&] {
                all_gather(group, {x, other}, x);
              }),
              HasSubstr("Invalid usage of tensors with different dtypes"));
  EXPECT_THAT(text([&] { all_gather(group, {x}, at::ones({4})); }), HasSubstr("1 tensors"));
  EXPECT_THAT(text([&] { all_gather(group, {x, x}, at::ones({4})); }), HasSubstr("overlap"));
  EXPECT_THAT(text([&] { all_gather_into_tensor(group, at::ones({7}), x); }),
              HasSubstr("output tensor size must be equal to world_size times input tensor size"));
  EXPECT_THAT(text([&] { reduce_scatter_tensor(group, x, at::ones({7})); }),
              HasSubstr("input tensor size must be equal to world_size times output tensor size"));
  EXPECT_THAT(text([&] { all_to_all_single(group, at::ones({3}), x); }),
              HasSubstr("Tensor's dim 0 does not divide equally across group size"));
  EXPECT_THAT(text([&] {
                all_to_all_single(group, at::ones({4}), x, {2, 1}, {2, 2});
              }),
              HasSubstr("Split sizes doesn't match total dim 0 size"));
  EXPECT_THAT(text([&] { all_to_all_single(group, at::ones({4}), x, {4}, {}); }),
              HasSubstr("Number of tensor splits not equal to group size"));
  EXPECT_THAT(text([&] { all_reduce(group, at::ones({2}, at::kComplexFloat), reduce_op::max); }),
              HasSubstr("all_reduce does not support MAX on complex tensors"));
  EXPECT_THAT(text([&] { all_reduce(group, at::ones({2}), reduce_op::band); }), HasSubstr("BAND"));
  EXPECT_THAT(text([&] { all_reduce(group, at::Tensor()); }), HasSubstr("is not defined"));
  EXPECT_THAT(text([&] { broadcast(group, at::ones({2}).to_sparse(), 0); }), HasSubstr("Sparse"));
  EXPECT_THAT(text([&] { all_reduce(group, at::ones({1}).expand({3})); }), HasSubstr("overlap"));
  EXPECT_THAT(text([&] { all_reduce(group, at::ones({2}).requires_grad_()); }),
              HasSubstr("a leaf tensor that requires gradients"));
  EXPECT_THAT(text([&] { broadcast(group, x, 2); }),
              HasSubstr("Group rank 2 is not part of group world/0,1#0"));
  // The group is as good as before.
  EXPECT_EQ(group.sequence_number(), 0u);
  all.run([](const process_group& each, int) { barrier(each); });
}

TEST(work, refuses_what_its_group_cannot_take) {
  local_group all(2);
  const auto& group = all.groups[0];
  const auto text = [](auto f) { return thrown_text<invalid_argument>(f); };
  const auto meta = at::empty({4}, at::TensorOptions().device(at::kMeta).dtype(at::kFloat));
  EXPECT_THAT(text([&] { all_reduce(group, meta); }),
              HasSubstr("No backend type associated with device type meta"));
  EXPECT_THAT(text([&] { all_reduce(group, meta, async); }), HasSubstr("device type meta"));
  EXPECT_THAT(text([&] { send(group, meta, 1); }), HasSubstr("device type meta: send of group"));
  EXPECT_THAT(text([&] { isend(group, meta, 1); }), HasSubstr("device type meta"));
  EXPECT_THAT(text([&] { recv(group, meta, 1); }), HasSubstr("device type meta: recv of group"));
  EXPECT_THAT(text([&] { irecv(group, meta, 1); }), HasSubstr("device type meta"));
  const auto quantized = at::quantize_per_tensor(at::ones({4}), 0.5, 0, at::kQInt8);
  EXPECT_THAT(text([&] { broadcast(group, quantized, 0); }), HasSubstr("no quantized tensors"));
  const auto leaf = at::ones({2, 2}).requires_grad_();
  EXPECT_THAT(text([&] { all_reduce(group, leaf.view({4})); }),
              HasSubstr("a leaf tensor that requires gradients, or a view of one"));
  EXPECT_THAT(text([&] {
                all_to_all_single(group, at::ones({4}), at::ones({4}), {},
                                  {std::numeric_limits<std::int64_t>::max(),
                                   std::numeric_limits<std::int64_t>::max()});
              }),
              HasSubstr("Split sizes doesn't match total dim 0 size"));
  // The group is as good as before, on all ranks.
  EXPECT_EQ(group.sequence_number(), 0u);
  all.run([](const process_group& each, int) { barrier(each); });
}

TEST(work, writes_in_place_into_the_own_part_alone) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto text = [](auto f) { return thrown_text<invalid_argument>(f); };
    const auto whole = at::full({8}, rank + 1, at::kFloat);
    const auto mine = whole.narrow(0, 4 * rank, 4), other = whole.narrow(0, 4 - 4 * rank, 4);
    EXPECT_THAT(text([&] { all_gather_into_tensor(group, whole, other); }), HasSubstr("overlap"));
    EXPECT_THAT(text([&] { all_gather_into_tensor(group, whole, whole.narrow(0, 2, 4)); }),
                HasSubstr("overlap"));
    EXPECT_THAT(text([&] { reduce_scatter_tensor(group, other, whole); }), HasSubstr("overlap"));
    EXPECT_EQ(group.sequence_number(), 0u);
    all_gather_into_tensor(group, whole, mine);
    EXPECT_EQ(whole[0].item<int>(), 1);
    EXPECT_EQ(whole[7].item<int>(), 2);
    reduce_scatter_tensor(group, mine, whole);
    EXPECT_EQ(mine[0].item<int>(), rank == 0 ? 2 : 4);
  });
}

TEST(work, writes_into_strided_tensors_that_do_not_overlap) {
  local_group all(2);
  all.run([](const process_group& group, int rank) {
    const auto table = at::zeros({5, 3});
    const auto column = [&](int i) { return table.select(1, i); };
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  all_gather(group, {column(0), column(0)}, at::ones({5}));
                }),
                HasSubstr("outputs 0 and 1 overlap"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] {
                  all_gather(group, {table.view({15}).narrow(0, 6, 5), column(1)}, at::ones({5}));
                }),
                HasSubstr("outputs 0 and 1 overlap"));
    all_gather(group, {column(0), column(2)}, at::full({5}, rank + 1, at::kFloat));
    for (int row = 0; row < 5; ++row) {
      EXPECT_EQ(table[row][0].item<int>(), 1);
      EXPECT_EQ(table[row][1].item<int>(), 0);
      EXPECT_EQ(table[row][2].item<int>(), 2);
    }
  });
}

TEST(work, refuses_outputs_whose_own_elements_overlap) {
  local_group all(2);
  all.run([](const process_group& group, int) {
    const auto row = at::zeros({8});
    const auto refused = [&](const at::Tensor& out) {
      EXPECT_THAT(thrown_text<invalid_argument>([&] { broadcast(group, out, 0); }),
                  HasSubstr("whose elements overlap"));
    };
    refused(row.unfold(0, 3, 2));
    refused(row.as_strided({2, 3}, {2, 1}));
    refused(row.narrow(0, 0, 1).expand({4}));
    // These interleave, and share nothing.
    broadcast(group, row.as_strided({2, 3}, {1, 2}), 0);
    broadcast(group, row.unfold(0, 2, 3), 0);
    broadcast(group, row.narrow(0, 0, 1).expand({1}), 0);
  });
}

TEST(work, is_not_waited_for_less_than_no_time) {
  local_group all(2);
  all.run([](const process_group& group, int) {
    const auto running = barrier(group, async);
    EXPECT_THAT(thrown_text<invalid_argument>([&] { running.wait(-1ms); }), HasSubstr("-1 ms"));
    running.wait();
  });
}

TEST(work, reads_strided_tensors_when_it_runs) {
  local_group all(2);
  all.run([](const process_group& group, int) {
    const auto x = at::ones({50, 2}).select(1, 0);
    std::vector<work> started;
    for (int i = 0; i < 5; ++i) started.push_back(all_reduce(group, x, async));
    for (const auto& one : started) one.wait();
    EXPECT_EQ(x[49].item<int>(), 32);
    // An input that an operation before it writes.
    const auto sums = at::zeros({100});
    const auto again = all_reduce(group, x, async);
    all_gather_into_tensor(group, sums, x, async).wait();
    EXPECT_EQ(sums[99].item<int>(), 64);
  });
}

TEST(work, goes_on_when_its_future_is_cancelled) {
  local_group all(2);
  const auto x = at::ones({1});
  const auto started = all_reduce(all.groups[0], x, async);
  const auto given_up = started.get_future();
  given_up.cancel();
  EXPECT_THROW(given_up.get(), cancelled_error);
  EXPECT_FALSE(started.is_completed());
  EXPECT_THROW(started.wait(20ms), collective_timeout);
  all_reduce(all.groups[1], at::ones({1}));
  started.wait();
  EXPECT_TRUE(started.is_success());
  EXPECT_EQ(x.item<float>(), 2);
}

TEST(work, multiplies_by_each_ranks_factor) {
  local_group all(3);
  all.run([](const process_group& group, int rank) {
    for (const std::int64_t count : {3, 20'000}) {
      const auto x = at::full({count}, 2, at::kDouble);
      all_reduce(group, x, premul_sum(rank + 0.5));
      EXPECT_EQ(x[count - 1].item<double>(), 2 * (0.5 + 1.5 + 2.5));
    }
  });
}

}  // namespace
}  // namespace troupe::test
