#include "tests/actors/groups/collective_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/actors/groups/dtype_elements.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"

namespace troupe::test {

namespace {

using groups::operation_kind;

const char* name_of_shape(int shape) {
  static constexpr const char* names[] = {"empty", "scalar",   "few",    "page",
                                          "row",   "long row", "strided"};
  return names[shape];
}

// An operation with its reduction, and a dtype that it takes.
struct possible {
  operation_kind kind;
  reduce_op reduction;
  at::ScalarType dtype;
};

std::vector<possible> all_possible() {
  std::vector<possible> out;
  for (const auto kind : moving_kinds)
    for (const auto dtype : numeric_dtypes())
      for (int op = 0; op < (groups::reduces(kind) ? reduce_ops : 1); ++op)
        if (!groups::reduces(kind) ||
            groups::unsupported_reduction(to_string(kind), reduce_op(op), dtype).empty())
          out.push_back({kind, reduce_op(op), dtype});
  return out;
}

// A value of each of the five: operation, dtype, shape, ranks, place.
using case_values = std::array<int, 5>;
using value_pair = std::array<int, 4>;  // of which two, and their values

std::vector<value_pair> pairs_of(const case_values& of) {
  std::vector<value_pair> out;
  for (int i = 0; i < 5; ++i)
    for (int j = i + 1; j < 5; ++j)
      out.push_back({i, j, of[static_cast<std::size_t>(i)], of[static_cast<std::size_t>(j)]});
  return out;
}

case_values values_of_case(const possible& what, int shape, int ranks, int place) {
  return {static_cast<int>(what.kind) * reduce_ops + static_cast<int>(what.reduction),
          static_cast<int>(what.dtype), shape, ranks, place};
}

template <class F>
void for_each_case(const std::vector<possible>& all, F f) {
  for (const auto& one : all)
    for (int shape = 0; shape < shape_classes; ++shape)
      for (int ranks = 1; ranks <= most_matrix_ranks; ++ranks)
        for (int place = 0; place < data_places; ++place) f(one, shape, ranks, place);
}

void plan_case(matrix_plan& to, const possible& what, const case_values& where) {
  to[{where[3], data_place(where[4])}].push_back(
      {what.kind, what.dtype, what.reduction, shape_class(where[2])});
}

}  // namespace

matrix_plan whole_matrix() {
  matrix_plan out;
  for_each_case(all_possible(), [&](const possible& what, int shape, int ranks, int place) {
    plan_case(out, what, values_of_case(what, shape, ranks, place));
  });
  return out;
}

// Greedy: each operation and dtype gets the shape, ranks and place with the most new pairs.
matrix_plan pairwise_matrix(std::vector<std::string>& missing) {
  const auto all = all_possible();
  std::set<value_pair> met;
  matrix_plan out;
  for (const auto& what : all) {
    case_values best{};
    std::ptrdiff_t most = -1;
    for_each_case({what}, [&](const possible& one, int shape, int ranks, int place) {
      const auto here = values_of_case(one, shape, ranks, place);
      const auto pairs = pairs_of(here);
      const auto fresh =
          std::ranges::count_if(pairs, [&](const auto& pair) { return !met.contains(pair); });
      if (fresh <= most) return;
      most = fresh;
      best = here;
    });
    for (const auto& pair : pairs_of(best)) met.insert(pair);
    plan_case(out, what, best);
  }
  std::set<value_pair> possible_pairs;
  for_each_case(all, [&](const possible& what, int shape, int ranks, int place) {
    for (const auto& pair : pairs_of(values_of_case(what, shape, ranks, place)))
      possible_pairs.insert(pair);
  });
  // What the first round has left.
  for_each_case(all, [&](const possible& what, int shape, int ranks, int place) {
    const auto here = values_of_case(what, shape, ranks, place);
    const auto pairs = pairs_of(here);
    if (std::ranges::all_of(pairs, [&](const auto& pair) { return met.contains(pair); })) return;
    for (const auto& pair : pairs) met.insert(pair);
    plan_case(out, what, here);
  });
  for (const auto& [i, j, a, b] : possible_pairs)
    if (!met.contains({i, j, a, b}))
      missing.push_back(fmt::format("{} of {} with {} of {}", a, i, b, j));
  return out;
}

std::size_t cases_in(const matrix_plan& plan) {
  std::size_t out = 0;
  for (const auto& [group, cases] : plan) out += cases.size();
  return out;
}

group_options options_of(data_place place) {
  group_options out;
  out.backend = place == data_place::network ? "cpu:network" : "cpu:troupe";
  if (place != data_place::staged) return out;
  std::string rules;
  for (const auto kind : moving_kinds)
    rules += fmt::format("{}{}:staged>=0", rules.empty() ? "" : ",", to_string(kind));
  out.backend_options["collectives"] = rules;
  return out;
}

std::string matrix_case::text() const {
  return fmt::format("{}({}) of {}, {}", to_string(kind), groups::to_string(reduction),
                     c10::toString(dtype), name_of_shape(static_cast<int>(shape)));
}

}  // namespace troupe::test
