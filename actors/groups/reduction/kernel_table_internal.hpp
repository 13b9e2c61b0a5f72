#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace troupe::groups {

/// What a kernel does once.
struct reduction_job {
  const std::byte* const* sources;
  std::size_t source_count;
  std::byte* const* destinations;
  std::size_t destination_count;
  std::size_t count;      // elements
  const double* factors;  // of premul_sum, one for each source
  bool streaming;
};

using reduction_kernel = void (*)(const reduction_job&);

// The kernel of `op` for `dtype`, which is not complex; nullptr: there is none.
namespace baseline {
reduction_kernel find_kernel(reduce_op op, c10::ScalarType dtype) noexcept;
}
namespace avx2 {
reduction_kernel find_kernel(reduce_op op, c10::ScalarType dtype) noexcept;
}
namespace avx512 {
reduction_kernel find_kernel(reduce_op op, c10::ScalarType dtype) noexcept;
}

}  // namespace troupe::groups
