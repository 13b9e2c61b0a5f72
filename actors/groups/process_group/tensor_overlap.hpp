#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::groups {

/// Do they share an element's memory, whatever their strides? Exact, but for tensors of which an
/// extent meets the other's, whose strides leave gaps, and whose elements lie at odds: these
/// overlap. Of one dtype. Time and memory go with the elements only where extents with gaps meet.
bool overlap(const at::Tensor& a, const at::Tensor& b);

/// Do two elements of it share memory? Exact. Time and memory go with the elements only where its
/// strides interleave, as those of at::Tensor::unfold.
bool overlaps_itself(const at::Tensor& tensor);

}  // namespace troupe::groups
