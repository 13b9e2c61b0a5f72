// Sums of sparse tensors, beside those of the same as dense ones.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

using testing::HasSubstr;

class sparse_all_reduce : public testing::TestWithParam<std::tuple<const char*, int>> {
protected:
  void on_all(const std::function<void(const process_group&, int)>& body) {
    const auto [backend, size] = GetParam();
    local_group all(size, {.backend = backend});
    all.run(body);
  }
};
INSTANTIATE_TEST_SUITE_P(backends, sparse_all_reduce,
                         testing::Combine(testing::Values("cpu:network", "cpu:troupe"),
                                          testing::Values(1, 2, 3, 5)));

// Of [40, 6] elements or rows; rank r has 3r + `more` of them, some at the same place.
at::Tensor sparse_of(int rank, at::ScalarType dtype, bool rows, std::int64_t more = 2) {
  const auto count = 3 * rank + more;
  const auto places = (at::arange(count, at::kLong) * 7 + rank * 2).remainder(40);
  const auto indices = at::zeros({rows ? 1 : 2, count}, at::kLong);
  indices[0].copy_(places);
  if (!rows) indices[1].copy_(at::arange(count, at::kLong).remainder(6));
  auto numbers = at::arange(rows ? count * 6 : count, at::kLong).remainder(9) - 3 + rank;
  if (dtype == at::kByte) numbers = numbers.abs();
  auto values = numbers.to(dtype);
  if (rows) values = values.reshape({count, 6});
  return at::sparse_coo_tensor(indices, values, {40, 6}, at::TensorOptions(dtype));
}

at::Tensor dense_sum(int size, at::ScalarType dtype, bool rows, std::int64_t more = 2) {
  auto sum = at::zeros({40, 6}, dtype);
  for (int rank = 0; rank < size; ++rank) sum += sparse_of(rank, dtype, rows, more).to_dense();
  return sum;
}

TEST_P(sparse_all_reduce, sums_tensors_of_any_number_of_elements) {
  on_all([](const process_group& group, int rank) {
    for (const auto dtype :
         {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf, at::kBFloat16,
          at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble}) {
      for (const bool rows : {false, true}) {
        const auto x = sparse_of(rank, dtype, rows);
        all_reduce(group, x);
        EXPECT_TRUE(x.is_coalesced());
        EXPECT_EQ(x.scalar_type(), dtype);
        EXPECT_TRUE(x.to_dense().equal(dense_sum(group.size(), dtype, rows)))
            << c10::toString(dtype) << " rank " << rank;
      }
    }
  });
}

TEST_P(sparse_all_reduce, is_a_work_in_its_turn) {
  on_all([](const process_group& group, int rank) {
    const auto before = at::ones({4}), after = at::ones({4});
    const auto x = sparse_of(rank, at::kFloat, true), y = sparse_of(rank, at::kDouble, false, 0);
    const auto first = all_reduce(group, before, async);
    const auto sparse = all_reduce(group, x, async);
    const auto other = all_reduce(group, y, async);
    const auto last = all_reduce(group, after, async);
    last.wait();
    EXPECT_TRUE(sparse.is_completed());
    EXPECT_TRUE(sparse.result().at(0).is_same(x));
    EXPECT_TRUE(other.result().at(0).is_same(y));
    EXPECT_TRUE(x.to_dense().equal(dense_sum(group.size(), at::kFloat, true)));
    EXPECT_TRUE(y.to_dense().equal(dense_sum(group.size(), at::kDouble, false, 0)));
    EXPECT_EQ(after[0].item<int>(), group.size());
    first.wait();
  });
}

TEST_P(sparse_all_reduce, takes_tensors_without_elements) {
  on_all([](const process_group& group, int rank) {
    // None at all, none here, and no place for any.
    const auto none = at::sparse_coo_tensor(at::empty({2, 0}, at::kLong), at::empty({0}), {3, 3});
    all_reduce(group, none);
    EXPECT_EQ(none._nnz(), 0);
    const auto some =
        at::sparse_coo_tensor(at::zeros({1, rank % 2}, at::kLong), at::ones({rank % 2, 2}), {3, 2});
    all_reduce(group, some);
    EXPECT_EQ(some.to_dense()[0][1].item<int>(), group.size() / 2);
    const auto rows = at::sparse_coo_tensor(at::zeros({1, 1}, at::kLong), at::ones({1, 0}), {3, 0});
    all_reduce(group, rows);
    EXPECT_EQ(rows.numel(), 0);
  });
}

TEST_P(sparse_all_reduce, is_the_same_on_all_ranks) {
  on_all([](const process_group& group, int rank) {
    const auto x = sparse_of(rank, at::kFloat, true);
    x._values().mul_(0.1);
    all_reduce(group, x);
    const auto mine = x.to_dense();
    const auto all = at::empty({group.size(), 40, 6});
    all_gather_into_tensor(group, all, mine);
    for (int other = 0; other < group.size(); ++other) EXPECT_TRUE(all[other].equal(mine));
  });
}

TEST_P(sparse_all_reduce, refuses_what_it_does_not_do) {
  on_all([](const process_group& group, int rank) {
    const auto x = sparse_of(rank, at::kFloat, true);
    const auto refused = [&](const std::function<void()>& what, const char* text) {
      EXPECT_THAT(thrown_text<invalid_argument>(what), HasSubstr(text));
    };
    refused([&] { all_reduce(group, x, reduce_op::max); },
            "allreduce of sparse tensors only works with ReduceOp.SUM");
    refused([&] { all_reduce(group, x, reduce_op::avg, async); },
            "allreduce of sparse tensors only works with ReduceOp.SUM");
    refused([&] { all_reduce(group, sparse_of(0, at::kFloat, true).to(at::kBool)); },
            "all_reduce does not support sparse Bool tensors");
    refused([&] { all_reduce(group, sparse_of(0, at::kFloat, true).requires_grad_()); },
            "would write into a leaf tensor that requires gradients");
    refused([&] { broadcast(group, x, 0); }, "broadcast takes no Sparse tensors");
    refused([&] { reduce(group, x, 0); }, "reduce takes no Sparse tensors");
    refused([&] { all_reduce_coalesced(group, {x}); }, "all_reduce takes no Sparse tensors");
    refused([&] { all_reduce(group, x.to_dense().to_sparse_csr()); },
            "all_reduce takes no SparseCsr tensors");
    barrier(group);
  });
}

TEST_P(sparse_all_reduce, is_an_error_on_all_ranks_that_disagree) {
  if (std::get<1>(GetParam()) < 2) GTEST_SKIP() << "there is nobody to disagree with";
  const auto fails = [&](const std::function<at::Tensor(int)>& tensor,
                         const std::vector<const char*>& texts, bool goes_on) {
    on_all([&](const process_group& group, int rank) {
      const auto x = tensor(rank);
      const auto text = thrown_text<collective_mismatch>([&] { all_reduce(group, x); });
      for (const auto* one : texts) EXPECT_THAT(text, HasSubstr(one));
      if (!goes_on) {
        EXPECT_THROW(barrier(group), group_failed);
        return;
      }
      const auto again = all_reduce(group, x, async);
      EXPECT_THAT(thrown_text<collective_mismatch>([&] { again.wait(); }), HasSubstr(texts[0]));
      barrier(group);
    });
  };
  fails([](int rank) { return sparse_of(rank, rank == 1 ? at::kDouble : at::kFloat, true); },
        {"the ranks disagree: rank ", "a tensor of Double of sizes (40, 6), 1 of them sparse",
         "all_reduce of group 'world/0,1"},
        true);
  fails([](int rank) { return sparse_of(rank, at::kFloat, rank == 1); }, {"1 of them sparse"},
        true);
  fails([](int rank) { return rank == 1 ? at::ones({4}) : sparse_of(rank, at::kFloat, true); },
        {"rank 1 asked for all_reduce(sum) of 4 elements of Float"}, false);
}

}  // namespace
}  // namespace troupe::test
