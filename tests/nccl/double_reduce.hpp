#pragma once

#include <cstddef>
#include <span>

#include "troupe/actors/groups/nccl/nccl_interface.hpp"

namespace troupe::test::nccl_double {

std::size_t size_of(groups::nccl::data_type type) noexcept;

/// Combines `count` values of each of `sources`, in their order, each times its factor first.
/// half, bfloat16 and the 8-bit floats accumulate in float32.
void combine(std::span<const std::byte* const> sources, std::span<const double> factors,
             std::byte* to, std::size_t count, groups::nccl::data_type type,
             groups::nccl::reduction how);

}  // namespace troupe::test::nccl_double
