#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <troupe/device_mesh.hpp>
#include <vector>

#include "troupe/apps/mesh_matmul/block.hpp"

namespace mesh_matmul {

/// The product of an m x k and a k x n matrix on a mesh of two dimensions, by the SUMMA algorithm
/// (R. van de Geijn and J. Watts, SUMMA: scalable universal matrix multiplication algorithm, 1997).
/// The rank at (i, j) has the i-th of the parts of the rows, and the j-th of those of the columns,
/// of each of the three matrices.
class product {
public:
  /// `panel` columns of the first matrix, and rows of the second, travel at once.
  product(troupe::device_mesh mesh, std::int64_t m, std::int64_t n, std::int64_t k,
          std::int64_t panel);

  // What this rank has, of rows and columns, of each matrix.
  extent rows() const noexcept { return rows_; }        ///< of the first, and the result
  extent columns() const noexcept { return columns_; }  ///< of the second, and the result
  extent a_columns() const noexcept { return a_columns_; }
  extent b_rows() const noexcept { return b_rows_; }

  /// This rank's block of the result, which is overwritten, of its blocks of the two matrices, all
  /// float32 and contiguous. All ranks call it. `blocking`: panels are fetched before each
  /// multiplication, and not during the one before.
  void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& c, bool blocking) const;

  /// The multiplications of this rank alone, with the same panels.
  void multiply_without_others(at::Tensor& c) const;

  /// Is `c` the product? By one with a vector (R. Freivalds, 1977), exactly, for small integers.
  /// All ranks call it and get the same answer.
  bool is_right(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                std::uint64_t seed) const;

  /// Floating-point operations of all ranks.
  double operations() const noexcept;

private:
  struct fetched;

  fetched fetch(const at::Tensor& a, const at::Tensor& b, const extent& panel) const;

  troupe::device_mesh mesh_;
  troupe::process_group row_, column_;  // this rank's lines
  const std::int64_t m_, n_, k_;
  extent rows_, columns_, a_columns_, b_rows_;
  std::vector<extent> panels_;  // of k; each lies within one rank's part, on both sides
};

}  // namespace mesh_matmul
