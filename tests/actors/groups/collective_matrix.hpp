#pragma once

// Operation, dtype, reduction, shape, number of ranks and place of the memory: all combinations
// that there are, and a sample in which every two values of two of them meet.

#include <ATen/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>
#include <troupe/collectives.hpp>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::test {

/// Of the tensors of one rank; lists have one more element for each rank before.
enum class shape_class : std::uint8_t {
  empty,
  scalar,    ///< without dimensions
  few,       ///< with the entry
  page,      ///< in the areas
  row,       ///< one that is read where it lies
  long_row,  ///< in several pieces
  strided,   ///< every second element of another one
};
inline constexpr int shape_classes = 7;

/// Where the data goes: tensors of the arena, by the way that is chosen for them; in pieces; in
/// messages.
enum class data_place : std::uint8_t { arena, staged, network };
inline constexpr int data_places = 3;
group_options options_of(data_place place);

inline constexpr int most_matrix_ranks = 8;

/// The operations that move data.
inline constexpr groups::operation_kind moving_kinds[] = {
    groups::operation_kind::broadcast,
    groups::operation_kind::all_reduce,
    groups::operation_kind::reduce,
    groups::operation_kind::all_gather,
    groups::operation_kind::all_gather_into_tensor,
    groups::operation_kind::gather,
    groups::operation_kind::scatter,
    groups::operation_kind::reduce_scatter,
    groups::operation_kind::reduce_scatter_tensor,
    groups::operation_kind::all_to_all,
    groups::operation_kind::all_to_all_single};

/// What the ranks of a group do together.
struct matrix_case {
  groups::operation_kind kind;
  at::ScalarType dtype;
  reduce_op reduction;  ///< sum where the kind has none
  shape_class shape;

  std::string text() const;
};

/// A group for the cases that belong to it.
using matrix_group = std::pair<int, data_place>;
using matrix_plan = std::map<matrix_group, std::vector<matrix_case>>;

/// All that is possible.
matrix_plan whole_matrix();

/// So many that every two values of an operation (with its reduction), dtype, shape, number of
/// ranks and place meet at least once, if that is possible. Adds to `missing` those that do not.
matrix_plan pairwise_matrix(std::vector<std::string>& missing);

std::size_t cases_in(const matrix_plan& plan);

/// All ranks of a group call it with the same case. Compares what this rank has got with plain
/// loops over what all ranks have given; fails the test if they differ.
void check_matrix_case(const process_group& group, const matrix_case& what);

}  // namespace troupe::test
