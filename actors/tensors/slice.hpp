#pragma once

#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace at {
class Tensor;
}

namespace troupe {

/// Places of one dimension of a tensor: from `begin` on, up to `end` and without it, every
/// `step`-th. As in Python, negative places count from the end, and places beyond the dimension are
/// left out.
struct slice {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  std::int64_t step = 1;

  friend bool operator==(const slice&, const slice&) = default;
  friend constexpr auto troupe_fields(const slice*) {
    return std::make_tuple(&slice::begin, &slice::end, &slice::step);
  }
};

namespace detail {

/// A view of `whole` that has the places which `which` names, the first for the first dimension;
/// further dimensions are whole. Throws invalid_argument: there are too many, or a step is not
/// positive.
at::Tensor sliced(const at::Tensor& whole, const std::vector<slice>& which);

/// The same as a tensor of its own, row by row, without gradients.
at::Tensor copy_of_slices(const at::Tensor& whole, const std::vector<slice>& which);

}  // namespace detail

}  // namespace troupe
