#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <troupe/collectives.hpp>
#include <vector>

namespace troupe::test {

/// The dtypes whose elements have values that a program computes with.
const std::vector<at::ScalarType>& numeric_dtypes();

/// The dtypes that are only moved: bits, and elements of less than a byte.
const std::vector<at::ScalarType>& opaque_dtypes();

/// A row of elements, which depends on all arguments.
at::Tensor drawn_row(at::ScalarType dtype, std::int64_t count, std::uint64_t seed);

/// Rows of a numeric dtype, one of each rank, combined element by element in plain loops. With the
/// rank's factor for premul_sum.
at::Tensor plainly_reduced(const std::vector<at::Tensor>& rows, reduce_op op,
                           const std::vector<double>& factors);

/// The same dtype, sizes, and values; NaNs are one.
bool alike(const at::Tensor& a, const at::Tensor& b);

}  // namespace troupe::test
