// Gradients through collectives, beside those of one process that computes the same on all ranks'
// tensors: first and second ones.

#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <troupe/differentiable_collectives.hpp>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {
namespace {

namespace diff = troupe::differentiable;
using testing::HasSubstr;

using tensors = std::vector<at::Tensor>;
using by_rank = std::vector<tensors>;

// Smooth, and different at every place of every rank.
at::Tensor leaf(int rank, std::vector<std::int64_t> sizes, int salt = 0) {
  std::int64_t count = 1;
  for (const auto one : sizes) count *= one;
  auto out = (at::arange(count, at::kDouble) * 0.37 + rank * 1.3 + salt * 0.71).sin();
  return out.reshape(sizes).requires_grad_();
}

at::Tensor loss_of(const tensors& outputs, int rank) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto weights = at::arange(outputs[i].numel(), at::kDouble) + rank + 1.0 + 0.5 * double(i);
    sum = sum + (outputs[i].sin().reshape({-1}) * weights).sum();
  }
  return sum;
}

// Gradients of `loss`, and of the sum of their squares.
std::pair<tensors, tensors> gradients(const at::Tensor& loss, const tensors& inputs) {
  const auto defined = [&](tensors all) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!all[i].defined()) all[i] = at::zeros_like(inputs[i]);
    return all;
  };
  const auto first = defined(torch::autograd::grad({loss}, inputs, {}, true, true, true));
  auto squares = at::zeros({}, at::kDouble);
  for (const auto& one : first) squares = squares + (one * one).sum();
  tensors second;
  second = defined(torch::autograd::grad({squares}, inputs, {}, true, false, true));
  return {first, second};
}

struct program {
  // This rank's leaves; what it gets in a group; and all that all ranks get, in one process.
  std::function<tensors(int rank, int size)> leaves;
  std::function<tensors(const process_group&, const tensors&)> distributed;
  std::function<by_rank(const by_rank&)> reference;
};

class differentiable_collectives : public testing::TestWithParam<int> {
protected:
  void compare(const program& what) {
    const int size = GetParam();
    by_rank all;
    tensors flat;
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(what.leaves(rank, size));
      flat.insert(flat.end(), all.back().begin(), all.back().end());
    }
    const auto expected = what.reference(all);
    at::Tensor total = at::zeros({}, at::kDouble);
    for (int rank = 0; rank < size; ++rank)
      total = total + loss_of(expected[static_cast<std::size_t>(rank)], rank);
    const auto [first, second] = gradients(total, flat);
    local_group group(size);
    group.run([&, &of_first = first, &of_second = second](const process_group& world, int rank) {
      const auto mine = what.leaves(rank, size);
      const auto outputs = what.distributed(world, mine);
      const auto& wanted = expected[static_cast<std::size_t>(rank)];
      ASSERT_EQ(outputs.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_TRUE(at::allclose(outputs[i], wanted[i])) << "output " << i << " of rank " << rank;
      const auto [here_first, here_second] = gradients(loss_of(outputs, rank), mine);
      for (std::size_t i = 0; i < mine.size(); ++i) {
        const auto at = static_cast<std::size_t>(rank) * mine.size() + i;
        EXPECT_TRUE(at::allclose(here_first[i], of_first[at])) << i << " of rank " << rank;
        EXPECT_TRUE(at::allclose(here_second[i], of_second[at]))
            << "second, " << i << " of rank " << rank;
      }
    });
  }
};

INSTANTIATE_TEST_SUITE_P(sizes, differentiable_collectives, testing::Values(1, 2, 3, 4));

tensors one_leaf(int rank, int) { return {leaf(rank, {2, 3})}; }

// For each rank one of those sizes, which differ.
tensors leaf_for_each(int rank, int size) {
  tensors out;
  for (int to = 0; to < size; ++to) out.push_back(leaf(rank, {to + 1, 2}, to));
  return out;
}

diff::tensor_sizes sizes_for_each(int size) {
  diff::tensor_sizes out;
  for (int to = 0; to < size; ++to) out.push_back({to + 1, 2});
  return out;
}

at::Tensor reduced(const by_rank& all, std::size_t place, reduce_by op) {
  const auto size = static_cast<double>(all.size());
  at::Tensor sum = at::zeros_like(all[0][place]);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    sum = sum + all[rank][place] * (op.op == reduce_op::premul_sum ? 1.5 + double(rank)
                                    : op.op == reduce_op::avg      ? 1 / size
                                                                   : 1.0);
  return sum;
}

// Of premul_sum each rank has another factor.
reduce_by for_rank(reduce_by op, int rank) {
  return op.op == reduce_op::premul_sum ? premul_sum(1.5 + rank) : op;
}

const reduce_by linear[] = {reduce_op::sum, reduce_op::avg, premul_sum(1)};

// The same for each rank.
by_rank everywhere(const by_rank& all, const tensors& result) {
  return by_rank(all.size(), result);
}

// For one rank; zeros for the others.
by_rank only_at(const by_rank& all, std::size_t rank, const tensors& result) {
  tensors zeros;
  for (const auto& one : result) zeros.push_back(at::zeros_like(one));
  by_rank out(all.size(), zeros);
  out[rank] = result;
  return out;
}

tensors column(const by_rank& all, std::size_t place) {
  tensors out;
  for (const auto& of_rank : all) out.push_back(of_rank[place]);
  return out;
}

TEST_P(differentiable_collectives, broadcast_sums_at_its_source) {
  const int src = GetParam() - 1;
  compare({one_leaf,
           [=](const process_group& group, const tensors& mine) {
             return tensors{diff::broadcast(group, mine[0], src)};
           },
           [=](const by_rank& all) {
             return everywhere(all, {all[static_cast<std::size_t>(src)][0].clone()});
           }});
}

TEST_P(differentiable_collectives, all_reduce_sums_the_gradients) {
  for (const auto op : linear)
    compare({one_leaf,
             [=](const process_group& group, const tensors& mine) {
               return tensors{diff::all_reduce(group, mine[0], for_rank(op, group.rank()))};
             },
             [=](const by_rank& all) { return everywhere(all, {reduced(all, 0, op)}); }});
}

TEST_P(differentiable_collectives, reduce_broadcasts_the_gradient_of_its_destination) {
  const int dst = GetParam() / 2;
  for (const auto op : linear)
    compare({one_leaf,
             [=](const process_group& group, const tensors& mine) {
               return tensors{diff::reduce(group, mine[0], dst, for_rank(op, group.rank()))};
             },
             [=](const by_rank& all) {
               return only_at(all, static_cast<std::size_t>(dst), {reduced(all, 0, op)});
             }});
}

TEST_P(differentiable_collectives, gathers_take_gradients_back_to_where_tensors_come_from) {
  const int size = GetParam(), dst = size - 1;
  compare({one_leaf,
           [](const process_group& group, const tensors& mine) {
             return diff::all_gather(group, mine[0]);
           },
           [](const by_rank& all) { return everywhere(all, column(all, 0)); }});
  compare({one_leaf,
           [](const process_group& group, const tensors& mine) {
             return tensors{diff::all_gather_into_tensor(group, mine[0])};
           },
           [](const by_rank& all) { return everywhere(all, {at::cat(column(all, 0))}); }});
  // Of other sizes on each rank.
  const auto uneven = [](int rank, int) { return tensors{leaf(rank, {rank + 1, 2})}; };
  const auto sizes = sizes_for_each(size);
  compare({uneven,
           [=](const process_group& group, const tensors& mine) {
             return diff::all_gather(group, mine[0], sizes);
           },
           [](const by_rank& all) { return everywhere(all, column(all, 0)); }});
  compare({uneven,
           [=](const process_group& group, const tensors& mine) {
             return diff::gather(group, mine[0], dst, sizes);
           },
           [=](const by_rank& all) {
             return only_at(all, static_cast<std::size_t>(dst), column(all, 0));
           }});
}

TEST_P(differentiable_collectives, scatter_gathers_gradients_at_its_source) {
  const int src = GetParam() / 2;
  compare({leaf_for_each,
           [=](const process_group& group, const tensors& mine) {
             return tensors{diff::scatter(group, mine, src)};
           },
           [=](const by_rank& all) {
             by_rank out;
             for (const auto& one : all[static_cast<std::size_t>(src)])
               out.push_back({one.clone()});
             return out;
           }});
}

TEST_P(differentiable_collectives, reduce_scatters_gather_the_gradients) {
  const int size = GetParam();
  for (const auto op : linear) {
    compare({leaf_for_each,
             [=](const process_group& group, const tensors& mine) {
               return tensors{diff::reduce_scatter(group, mine, for_rank(op, group.rank()))};
             },
             [=](const by_rank& all) {
               by_rank out;
               for (std::size_t rank = 0; rank < all.size(); ++rank)
                 out.push_back({reduced(all, rank, op)});
               return out;
             }});
    compare({[](int rank, int of) {
               return tensors{leaf(rank, {2 * of, 3})};
             },
             [=](const process_group& group, const tensors& mine) {
               return tensors{
                   diff::reduce_scatter_tensor(group, mine[0], for_rank(op, group.rank()))};
             },
             [=](const by_rank& all) {
               by_rank out;
               for (const auto& one : reduced(all, 0, op).chunk(size)) out.push_back({one});
               return out;
             }});
  }
}

TEST_P(differentiable_collectives, all_to_alls_send_gradients_back) {
  const int size = GetParam();
  // Rank a has a + 2b + 1 rows for rank b.
  const auto rows = [](int from, int to) { return std::int64_t{from + 2 * to + 1}; };
  compare({[=](int rank, int of) {
             tensors out;
             for (int to = 0; to < of; ++to) out.push_back(leaf(rank, {rows(rank, to), 2}, to));
             return out;
           },
           [=](const process_group& group, const tensors& mine) {
             diff::tensor_sizes sizes;
             for (int from = 0; from < size; ++from) sizes.push_back({rows(from, group.rank()), 2});
             return diff::all_to_all(group, mine, sizes);
           },
           [](const by_rank& all) {
             by_rank out;
             for (std::size_t rank = 0; rank < all.size(); ++rank) out.push_back(column(all, rank));
             return out;
           }});
  compare({[=](int rank, int of) {
             std::int64_t sum = 0;
             for (int to = 0; to < of; ++to) sum += rows(rank, to);
             return tensors{leaf(rank, {sum, 2})};
           },
           [=](const process_group& group, const tensors& mine) {
             std::vector<std::int64_t> in, out;
             for (int other = 0; other < size; ++other) {
               in.push_back(rows(group.rank(), other));
               out.push_back(rows(other, group.rank()));
             }
             return tensors{diff::all_to_all_single(group, mine[0], out, in)};
           },
           [=](const by_rank& all) {
             by_rank out;
             for (int to = 0; to < size; ++to) {
               tensors parts;
               for (int from = 0; from < size; ++from) {
                 std::int64_t begin = 0;
                 for (int other = 0; other < to; ++other) begin += rows(from, other);
                 parts.push_back(all[static_cast<std::size_t>(from)][0].slice(
                     0, begin, begin + rows(from, to)));
               }
               out.push_back({at::cat(parts)});
             }
             return out;
           }});
  compare({[](int rank, int of) { return tensors{leaf(rank, {of})}; },
           [](const process_group& group, const tensors& mine) {
             return tensors{diff::all_to_all_single(group, mine[0])};
           },
           [](const by_rank& all) {
             by_rank out;
             const auto whole = at::stack(column(all, 0));
             for (std::size_t to = 0; to < all.size(); ++to)
               out.push_back({whole.select(1, static_cast<std::int64_t>(to))});
             return out;
           }});
}

// A layer that is split over the ranks, as tensor parallelism does it: several collectives in one
// graph, whose order all ranks share.
TEST_P(differentiable_collectives, make_one_graph) {
  const int size = GetParam();
  const auto weights = [](int rank, int) {
    return tensors{leaf(rank, {4, 3}, 1), leaf(rank, {3, 4}, 2), leaf(rank, {2, 4}, 3)};
  };
  compare({weights,
           [](const process_group& group, const tensors& mine) {
             const auto input = diff::broadcast(group, mine[2], 0);
             const auto hidden = input.matmul(mine[0]).tanh();
             const auto sum = diff::all_reduce(group, hidden.matmul(mine[1]));
             const auto all = diff::all_gather_into_tensor(group, hidden);
             return tensors{sum, all};
           },
           [=](const by_rank& all) {
             tensors hidden;
             auto sum = at::zeros({2, 4}, at::kDouble);
             for (std::size_t rank = 0; rank < static_cast<std::size_t>(size); ++rank) {
               hidden.push_back(all[0][2].matmul(all[rank][0]).tanh());
               sum = sum + hidden.back().matmul(all[rank][1]);
             }
             return everywhere(all, {sum, at::cat(hidden)});
           }});
}

TEST(differentiable_calls, include_ranks_whose_tensors_require_no_gradient) {
  local_group group(3);
  group.run([](const process_group& world, int rank) {
    auto x = at::ones({2}, at::kDouble);
    x.requires_grad_(rank == 1);
    const auto y = diff::broadcast(world, x, 1);
    EXPECT_TRUE(y.requires_grad());
    (y * (rank + 1.0)).sum().backward();
    EXPECT_EQ(x.grad().defined(), rank == 1);
    if (rank == 1) {
      EXPECT_TRUE(at::allclose(x.grad(), 6 * at::ones({2}, at::kDouble)));
    }
    const at::NoGradGuard none;
    EXPECT_FALSE(diff::all_reduce(world, x).requires_grad());
  });
}

TEST(differentiable_calls, leave_arguments_alone_and_refuse_what_has_no_gradient) {
  local_group group(2);
  group.run([](const process_group& world, int rank) {
    const auto x = leaf(rank, {3});
    const auto before = x.detach().clone();
    const auto y = diff::all_reduce(world, x);
    EXPECT_TRUE(x.detach().equal(before));
    EXPECT_FALSE(y.is_alias_of(x));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { diff::all_reduce(world, x, reduce_op::max); }),
                HasSubstr("all_reduce: MAX has no gradient here"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { diff::scatter(world, {x}, 0); }),
                HasSubstr("scatter: 1 tensors are not one for each of 2 ranks"));
    EXPECT_THAT(thrown_text<invalid_argument>([&] { diff::reduce_scatter_tensor(world, x); }),
                HasSubstr("3 rows cannot be divided equally among 2 ranks"));
    // Whole numbers are moved, and have no gradients.
    EXPECT_FALSE(diff::all_reduce(world, at::ones({2}, at::kLong)).requires_grad());
    barrier(world);
  });
}

TEST(differentiable_calls, name_a_rank_that_runs_no_backward_pass) {
  local_group group(2, {.timeout = 300ms});
  group.run([](const process_group& world, int rank) {
    const auto y = diff::all_reduce(world, leaf(rank, {3}));
    if (rank == 0) {
      EXPECT_THAT(
          thrown_text<collective_timeout>([&] { y.sum().backward(); }),
          HasSubstr("all_reduce, sequence number 2 of group 'world/0,1#0', on rank 0, timed "
                    "out after 300 ms: rank 1 is missing"));
    }
  });
}

TEST(differentiable_calls, do_nothing_on_a_node_that_is_no_member) {
  auto nodes = local_nodes(rank_names(2));
  on_each(nodes, [](const node& one, int rank) {
    const auto group = one.world().new_group({0});
    if (rank == 0) return;
    EXPECT_FALSE(diff::all_reduce(group, at::ones({1})).defined());
    EXPECT_TRUE(diff::all_gather(group, at::ones({1})).empty());
  });
}

}  // namespace
}  // namespace troupe::test
