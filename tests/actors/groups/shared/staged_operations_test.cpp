// Operations on memory that the other ranks have not mapped, in pieces through the areas, between
// processes.

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/actors/groups/shared/backend_processes.hpp"

namespace troupe::groups {
namespace {

using test::as_processes;
using test::asked_operation;
using test::forked_exchange;
using test::values;

// Memory of the program, for one operation, with a guard on both sides.
class memory_outside {
public:
  at::Tensor filled(const at::Tensor& with) {
    auto out = room(with.numel());
    out.copy_(with);
    return out;
  }

  at::Tensor room(std::int64_t count) {
    auto& memory = all_.emplace_back(static_cast<std::size_t>(count) + 2 * guard, -7.f);
    return at::from_blob(memory.data() + guard, {count});
  }

  // Nothing was written beside the tensors.
  bool sound() const {
    return std::ranges::all_of(all_, [](const auto& one) {
      const auto whole = [](float x) { return x == -7.f; };
      return std::all_of(one.begin(), one.begin() + guard, whole) &&
             std::all_of(one.end() - guard, one.end(), whole);
    });
  }

private:
  static constexpr std::ptrdiff_t guard = 16;
  std::deque<std::vector<float>> all_;
};

at::Tensor sum_of_ranks(int ranks, std::int64_t count, int more = 0) {
  auto out = values(more, count);
  for (int p = 1; p < ranks; ++p) out.add_(values(p + more, count));
  return out;
}

// `outside`: this rank has its tensors outside of the arena.
int every_staged_operation(backend& on, int rank, int size, std::int64_t count, bool outside) {
  memory_outside memory;
  const auto filled = [&](const at::Tensor& with) {
    return outside ? memory.filled(with) : with.clone();
  };
  const auto room = [&](std::int64_t n) {
    return outside ? memory.room(n) : values(0, n).fill_(-7);
  };
  {
    const auto a = filled(values(rank, count));
    asked_operation(operation_kind::all_reduce, {}, {a}).run(on);
    CHECK_OR_RETURN(at::equal(a, sum_of_ranks(size, count)), 1);
  }
  for (int root = 0; root < size; ++root) {
    const auto a = filled(values(rank + 3, count));
    asked_operation(operation_kind::broadcast, {}, {a}, root).run(on);
    CHECK_OR_RETURN(at::equal(a, values(root + 3, count)), 2);
    const auto in = filled(values(rank, count));
    std::vector<at::Tensor> out;
    if (rank == root) out.push_back(room(count));
    asked_operation(operation_kind::reduce, {in}, out, root).run(on);
    CHECK_OR_RETURN(at::equal(in, values(rank, count)), 3);
    CHECK_OR_RETURN(rank != root || at::equal(out[0], sum_of_ranks(size, count)), 4);
  }
  // Parts of rank p have p more elements than those of rank 0.
  for (int root = 0; root < size; ++root) {
    std::vector<at::Tensor> gathered, scattered;
    for (int p = 0; p < size && rank == root; ++p) {
      gathered.push_back(room(count + p));
      scattered.push_back(filled(values(10 * p, count + p)));
    }
    asked_operation(operation_kind::gather, {filled(values(rank, count + rank))}, gathered, root)
        .run(on);
    const auto mine = room(count + rank);
    asked_operation(operation_kind::scatter, scattered, {mine}, root).run(on);
    CHECK_OR_RETURN(at::equal(mine, values(10 * rank, count + rank)), 5);
    for (int p = 0; p < size && rank == root; ++p)
      CHECK_OR_RETURN(at::equal(gathered[static_cast<std::size_t>(p)], values(p, count + p)), 6);
  }
  {
    std::vector<at::Tensor> list;
    for (int p = 0; p < size; ++p) list.push_back(room(count + p));
    asked_operation(operation_kind::all_gather, {filled(values(rank, count + rank))}, list).run(on);
    const auto all = room(size * count);
    asked_operation(operation_kind::all_gather_into_tensor, {filled(values(rank, count))}, {all})
        .run(on);
    for (int p = 0; p < size; ++p) {
      CHECK_OR_RETURN(at::equal(list[static_cast<std::size_t>(p)], values(p, count + p)), 7);
      CHECK_OR_RETURN(at::equal(all.narrow(0, p * count, count), values(p, count)), 8);
    }
  }
  {
    const auto whole = filled(values(rank, size * count)), mine = room(count);
    asked_operation(operation_kind::reduce_scatter_tensor, {whole}, {mine}).run(on);
    CHECK_OR_RETURN(
        at::equal(mine, sum_of_ranks(size, size * count).narrow(0, rank * count, count)), 9);
    std::vector<at::Tensor> parts;
    for (int p = 0; p < size; ++p) parts.push_back(filled(values(rank + p, count + p)));
    const auto own = room(count + rank);
    asked_operation(operation_kind::reduce_scatter, parts, {own}).run(on);
    CHECK_OR_RETURN(at::equal(own, sum_of_ranks(size, count + rank, rank)), 10);
  }
  {
    // From rank p to rank q go count + p + 2q.
    std::vector<at::Tensor> in, out;
    asked_operation single(operation_kind::all_to_all_single, {}, {});
    std::int64_t sent = 0, received = 0;
    for (int q = 0; q < size; ++q) {
      single.input_splits.push_back(count + rank + 2 * q);
      single.output_splits.push_back(count + q + 2 * rank);
      in.push_back(filled(values(10 * rank + q, single.input_splits.back())));
      out.push_back(room(single.output_splits.back()));
      sent += single.input_splits.back();
      received += single.output_splits.back();
    }
    asked_operation(operation_kind::all_to_all, in, out).run(on);
    single.inputs = {room(sent)};
    single.outputs = {room(received)};
    single.what.dtype = at::kFloat;
    std::int64_t place = 0;
    for (const auto& one : in) {
      single.inputs[0].narrow(0, place, one.numel()).copy_(one);
      place += one.numel();
    }
    single.run(on);
    place = 0;
    for (int p = 0; p < size; ++p) {
      const auto expected = values(10 * p + rank, count + p + 2 * rank);
      CHECK_OR_RETURN(at::equal(out[static_cast<std::size_t>(p)], expected), 11);
      CHECK_OR_RETURN(at::equal(single.outputs[0].narrow(0, place, expected.numel()), expected),
                      12);
      place += expected.numel();
    }
  }
  return memory.sound() ? 0 : 13;
}

// The piece has 4,096 elements: less than one, exactly one, one more, several, many.
const std::string in_small_pieces = "piece=16384";
constexpr std::int64_t counts_of_pieces[] = {0, 1, 2'047, 4'095, 4'096, 4'097, 12'288, 30'001};

TEST(StagedOperations, AreRightAcrossTheSizeOfAPiece) {
  for (const int ranks : {2, 3})
    as_processes(
        ranks,
        [&](backend& on, int rank, forked_exchange&) {
          for (const auto count : counts_of_pieces)
            if (const int bad = every_staged_operation(on, rank, ranks, count, true)) {
              std::fprintf(stderr, "%d elements, rank %d\n", static_cast<int>(count), rank);
              return bad;
            }
          return 0;
        },
        in_small_pieces);
}

TEST(StagedOperations, AreRightWithThePiecesThatGroupsTake) {
  as_processes(2, [&](backend& on, int rank, forked_exchange&) {
    // 128 KiB, and what wraps around the areas, of 2 MiB.
    for (const std::int64_t count : {32'767, 32'768, 32'769, 700'000})
      if (const int bad = every_staged_operation(on, rank, 2, count, true)) return bad;
    return 0;
  });
}

// Where a single rank has its tensors outside, all take the same way.
TEST(StagedOperations, AreRightWhereOneRankAloneIsOutside) {
  as_processes(
      3,
      [&](backend& on, int rank, forked_exchange&) {
        for (int odd = 0; odd < 3; ++odd)
          for (const std::int64_t count : {5, 4'097, 30'001})
            if (const int bad = every_staged_operation(on, rank, 3, count, rank == odd)) return bad;
        return 0;
      },
      in_small_pieces);
}

}  // namespace
}  // namespace troupe::groups
