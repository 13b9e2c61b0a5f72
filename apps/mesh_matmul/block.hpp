#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace mesh_matmul {

/// Rows or columns of a matrix, from `begin` to before `end`.
struct extent {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const noexcept { return end - begin; }
  friend bool operator==(const extent&, const extent&) = default;
};

/// The `index`th of `parts` nearly equal parts of `size`.
extent part_of(std::int64_t size, std::int64_t index, std::int64_t parts) noexcept;
/// Which part has `at`.
std::int64_t part_with(std::int64_t size, std::int64_t at, std::int64_t parts) noexcept;

/// These rows and columns of a matrix that is known by its seed: float32, of the integers from -2
/// to 2. It is the same whoever makes it.
at::Tensor block_of(std::uint64_t seed, extent rows, extent columns);

/// These elements of a vector of integers from -999 to 999, in double.
at::Tensor vector_of(std::uint64_t seed, extent elements);

}  // namespace mesh_matmul
