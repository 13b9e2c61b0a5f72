// Several collectives as one work.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <chrono>

#include "tests/actors/groups/collective_conformance.hpp"
#include "tests/actors/groups/group_testing.hpp"
#include "troupe/actors/groups/process_group/prepared_call.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

class coalescing : public testing::TestWithParam<const char*> {
protected:
  void on_all(int size, const std::function<void(const process_group&, int)>& body) {
    local_group all(size, {.backend = GetParam()});
    all.run(body);
  }
};
INSTANTIATE_TEST_SUITE_P(backends, coalescing, testing::Values("cpu:network", "cpu:troupe"));

std::vector<at::Tensor> of_all_ranks(int size, std::vector<std::int64_t> sizes, int salt = 0) {
  std::vector<at::Tensor> out;
  for (int rank = 0; rank < size; ++rank) out.push_back(values_of(rank, sizes, at::kFloat, salt));
  return out;
}

// Tensors of sizes that have nothing to do with one another.
const std::vector<std::vector<std::int64_t>> shapes{{3}, {0}, {2, 5'000}, {}, {4, 1}};

TEST_P(coalescing, makes_one_operation_of_several_of_a_kind) {
  on_all(3, [](const process_group& group, int rank) {
    coalescing_manager batch(group);
    EXPECT_FALSE(batch.start().valid());
    std::vector<at::Tensor> sums, copies;
    for (const auto& shape : shapes) {
      sums.push_back(values_of(rank, shape, at::kFloat));
      batch.all_reduce(sums.back());
    }
    EXPECT_EQ(batch.size(), 1u);
    const auto work = batch.start();
    EXPECT_EQ(batch.size(), 0u);
    EXPECT_EQ(work.name(), "all_reduce");
    EXPECT_EQ(work.sequence_number(), 1u);
    EXPECT_EQ(work.result().size(), shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i)
      EXPECT_TRUE(same_bits(sums[i], combined(of_all_ranks(3, shapes[i]), reduce_op::sum)));
    // The others that take any number.
    std::vector<at::Tensor> all, parts;
    for (const auto& shape : shapes) {
      copies.push_back(values_of(rank, shape, at::kFloat, 1));
      batch.broadcast(copies.back(), 2);
    }
    for (const auto& shape : shapes) {
      auto larger = shape;
      larger.insert(larger.begin(), 3);
      all.push_back(at::empty(larger, at::kFloat));
      batch.all_gather_into_tensor(all.back(), values_of(rank, shape, at::kFloat, 2));
      parts.push_back(at::empty(shape, at::kFloat));
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      auto larger = shapes[i];
      larger.insert(larger.begin(), 3);
      batch.reduce_scatter_tensor(parts[i], values_of(rank, larger, at::kFloat, 3), reduce_op::max);
    }
    EXPECT_EQ(batch.size(), 3u);
    batch.run();
    EXPECT_EQ(group.sequence_number(), 4u);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      EXPECT_TRUE(same_bits(copies[i], values_of(2, shapes[i], at::kFloat, 1)));
      for (int from = 0; from < 3; ++from)
        EXPECT_TRUE(same_bits(all[i][from], values_of(from, shapes[i], at::kFloat, 2)));
      auto larger = shapes[i];
      larger.insert(larger.begin(), 3);
      EXPECT_TRUE(same_bits(
          parts[i], combined(of_all_ranks(3, larger, 3), reduce_op::max)[rank].contiguous()));
    }
  });
}

TEST_P(coalescing, takes_all_collectives_in_their_order) {
  on_all(2, [](const process_group& group, int rank) {
    coalescing_manager batch(group);
    const auto x = at::ones({4}) * (rank + 1);
    const auto y = at::ones({2}, at::kDouble), z = at::ones({2}) * (rank + 1);
    std::vector<at::Tensor> list{at::empty({4}), at::empty({4})};
    std::vector<at::Tensor> gathered, scattered;
    if (rank == 1) gathered = {at::empty({4}), at::empty({4})};
    if (rank == 0) scattered = {at::ones({1}) * 7, at::ones({1}) * 8};
    const auto mine = at::empty({1}), part = at::empty({1}), whole = at::empty({4});
    std::vector<at::Tensor> out{at::empty({1}), at::empty({1})};
    batch.all_reduce(x);  // 3
    batch.all_reduce(y);  // another dtype
    batch.all_reduce(z, reduce_op::max);
    batch.all_gather(list, x);  // what the all_reduce has made of it
    batch.reduce(z, 1);         // 2 + 2
    batch.gather(x, gathered, 1);
    batch.scatter(mine, scattered, 0);
    batch.reduce_scatter(part, {at::ones({1}), at::ones({1}) * 5});
    batch.all_to_all(out, {at::ones({1}) * rank, at::ones({1}) * (rank + 10)});
    batch.all_to_all_single(whole, x);
    EXPECT_EQ(batch.size(), 10u);
    const auto work = batch.start();
    const auto written = work.result();
    EXPECT_TRUE(work.is_success());
    EXPECT_EQ(work.sequence_number(), 10u);
    EXPECT_EQ(work.name(), "all_to_all_single");
    EXPECT_GT(work.duration().count(), 0);
    EXPECT_TRUE(written.front().is_same(x));
    EXPECT_TRUE(written.back().is_same(whole));
    EXPECT_TRUE(x.equal(at::ones({4}) * 3));
    EXPECT_TRUE(y.equal(at::ones({2}, at::kDouble) * 2));
    EXPECT_TRUE(list[0].equal(x) && list[1].equal(x));
    EXPECT_EQ(z[0].item<int>(), rank == 1 ? 4 : 2);
    if (rank == 1) {
      EXPECT_TRUE(gathered[0].equal(x) && gathered[1].equal(x));
    }
    EXPECT_EQ(mine.item<int>(), 7 + rank);
    EXPECT_EQ(part.item<int>(), rank == 0 ? 2 : 10);
    EXPECT_EQ(out[0].item<int>(), rank == 0 ? 0 : 10);
    EXPECT_EQ(out[1].item<int>(), rank == 0 ? 1 : 11);
    EXPECT_TRUE(whole.equal(x));
  });
}

TEST_P(coalescing, keeps_factors_of_ranks_apart) {
  on_all(2, [](const process_group& group, int rank) {
    coalescing_manager batch(group);
    const auto x = at::ones({2}), y = at::ones({2});
    batch.all_reduce(x, premul_sum(rank + 1));
    batch.all_reduce(y, premul_sum(rank == 0 ? 1 : 5));
    EXPECT_EQ(batch.size(), 2u);
    batch.run();
    EXPECT_EQ(x[0].item<int>(), 3);
    EXPECT_EQ(y[0].item<int>(), 6);
  });
}

TEST_P(coalescing, names_the_operation_that_fails) {
  on_all(2, [](const process_group& group, int rank) {
    coalescing_manager batch(group);
    const auto x = at::ones({2}), y = at::ones({3 + rank});
    batch.all_reduce(x);
    batch.broadcast(y, 0);
    batch.reduce(x, 0);
    const auto work = batch.start();
    EXPECT_THAT(thrown_text<collective_mismatch>([&] { work.wait(); }),
                testing::AllOf(HasSubstr("broadcast, sequence number 2 of group"),
                               HasSubstr("rank 1 asked for broadcast of 4 elements")));
    EXPECT_FALSE(work.is_success());
    EXPECT_THAT(thrown_text<group_failed>([&] {
                  batch.all_reduce(x);
                  batch.run();
                }),
                HasSubstr("takes no more operations"));
  });
}

TEST_P(coalescing, refuses_arguments_before_anything_is_sent) {
  on_all(2, [](const process_group& group, int) {
    coalescing_manager batch(group);
    const auto x = at::ones({2});
    batch.all_reduce(x);
    EXPECT_THAT(thrown_text<invalid_argument>([&] { batch.all_reduce(x, reduce_op::band); }),
                HasSubstr("Cannot use ReduceOp.BAND"));
    EXPECT_THAT(
        thrown_text<invalid_argument>([&] { batch.all_gather_into_tensor(at::empty({3}), x); }),
        HasSubstr("output tensor size must be equal"));
    EXPECT_EQ(batch.size(), 1u);
    batch.all_reduce(x);  // becomes one operation that would write it twice
    EXPECT_THAT(thrown_text<invalid_argument>([&] { batch.run(); }),
                HasSubstr("all_reduce: outputs 0 and 1 overlap"));
    EXPECT_EQ(batch.size(), 0u);
    // It would read what the first one has not yet written, also where a copy is made of it.
    const auto n = group.size();
    const auto first = at::zeros({2 * n, 2}), second = at::zeros({2 * n * n, 2});
    batch.all_gather_into_tensor(first, at::ones({2, 2}));
    batch.all_gather_into_tensor(second, first.view({2, 2 * n}).t());
    EXPECT_THAT(thrown_text<invalid_argument>([&] { batch.run(); }),
                HasSubstr("output 0 and input 1 overlap"));
    EXPECT_EQ(group.sequence_number(), 0u);
    barrier(group);
  });
}

// Of many tensors each is compared with those alone that it may overlap with.
TEST(coalescing_manager, checks_many_tensors_at_once) {
  constexpr std::int64_t count = 20'000;
  const auto outputs = at::zeros({count, 2}).unbind();
  const auto input = at::zeros({1});
  const auto call_of = [&] {
    groups::prepared_call out(groups::operation_kind::all_gather_into_tensor);
    // From the end on, so that nothing is sorted already.
    for (std::size_t i = outputs.size(); i-- > 0;) {
      out.input(input);
      out.output(outputs[i]);
    }
    return out;
  };
  const auto begin = std::chrono::steady_clock::now();
  call_of().check_overlaps(0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  // The first output counts, and other outputs before inputs.
  const auto text_with = [&](const at::Tensor& in, const at::Tensor& out) {
    auto call = call_of();
    call.input(in);
    call.output(out);
    return thrown_text<invalid_argument>([&] { call.check_overlaps(0); });
  };
  EXPECT_EQ(text_with(input, outputs[7]),
            "all_gather_into_tensor: outputs 19992 and 20000 overlap");
  EXPECT_EQ(text_with(outputs[9], at::zeros({2})),
            "all_gather_into_tensor: output 19990 and input 20000 overlap, and not as this rank's "
            "own part of the other");
  EXPECT_EQ(text_with(outputs[9], outputs[7]),
            "all_gather_into_tensor: output 19990 and input 20000 overlap, and not as this rank's "
            "own part of the other");
  EXPECT_EQ(text_with(outputs[7], outputs[9]),
            "all_gather_into_tensor: output 19992 and input 20000 overlap, and not as this rank's "
            "own part of the other")
      << "outputs 19990 and 20000 come later";
}

TEST(coalescing_manager, does_nothing_on_a_node_that_is_no_member) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [](const node& one, int rank) {
    coalescing_manager batch(one.world().new_group({0}));
    const auto x = at::ones({1});
    batch.all_reduce(x);
    batch.all_reduce(x.to(at::kDouble));
    EXPECT_EQ(batch.size(), rank == 0 ? 2u : 0u);
    EXPECT_EQ(batch.start().valid(), rank == 0);
  });
}

}  // namespace
}  // namespace troupe::test
