#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

#include "troupe/messages/base/function_ref.hpp"

namespace troupe::groups {

/// Do they share an element's memory, whatever their strides? Exact, but for tensors of which an
/// extent meets the other's, whose strides leave gaps, and whose elements lie at odds: these
/// overlap. Of one dtype. Time and memory go with the elements only where extents with gaps meet.
bool overlap(const at::Tensor& a, const at::Tensor& b);

/// Do two elements of it share memory? Exact. Time and memory go with the elements only where its
/// strides interleave, as those of at::Tensor::unfold.
bool overlaps_itself(const at::Tensor& tensor);

/// Calls `meet(output, other, is_input)` for each two tensors whose extents meet, which are an
/// output and an input, or two outputs, the later one first. In no order; n log n, and a constant
/// time for each call.
void for_each_meeting(std::span<const at::Tensor> outputs, std::span<const at::Tensor> inputs,
                      function_ref<void(std::size_t, std::size_t, bool)> meet);

}  // namespace troupe::groups
