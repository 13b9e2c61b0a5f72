#include "troupe/actors/groups/process_group/tensor_overlap.hpp"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::groups {

namespace {

struct extent {
  const std::byte* begin;
  const std::byte* end;
};

// From the first byte to behind the last one. Strides of tensors are not negative.
extent extent_of(const at::Tensor& tensor) {
  const auto* const begin = static_cast<const std::byte*>(tensor.const_data_ptr());
  std::int64_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) last += (tensor.size(i) - 1) * tensor.stride(i);
  return {begin, begin + (last + 1) * static_cast<std::int64_t>(tensor.element_size())};
}

// Calls `f` with the offset of each element, in elements.
template <class F>
void for_each_offset(const at::Tensor& tensor, F f) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(tensor.dim()));
  std::int64_t offset = 0;
  for (std::int64_t left = tensor.numel(); left > 0; --left) {
    f(offset);
    for (auto i = tensor.dim() - 1; i >= 0; --i) {
      auto& index = at[static_cast<std::size_t>(i)];
      offset += tensor.stride(i);
      if (++index < tensor.size(i)) break;
      offset -= index * tensor.stride(i);
      index = 0;
    }
  }
}

// Each dimension steps over all that is within those of smaller strides.
bool is_nested(const at::Tensor& tensor) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride and size
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    if (tensor.size(i) > 1) steps.emplace_back(tensor.stride(i), tensor.size(i));
  std::ranges::sort(steps);
  std::int64_t within = 0;
  for (const auto& [stride, size] : steps) {
    if (stride <= within) return false;
    within += (size - 1) * stride;
  }
  return true;
}

}  // namespace

bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.numel() == 0 || is_nested(tensor)) return false;
  const auto all = extent_of(tensor);
  std::vector<bool> used(static_cast<std::size_t>(all.end - all.begin) / tensor.element_size());
  bool found = false;
  for_each_offset(tensor, [&](std::int64_t offset) {
    auto there = used[static_cast<std::size_t>(offset)];
    found = found || there;
    there = true;
  });
  return found;
}

namespace {

struct placed_tensor {
  extent where;
  std::size_t index;
  bool is_input;
};

// Those that begin before the next one, and may reach into it: a heap, by their ends.
using reaching = c10::SmallVector<const placed_tensor*, 4>;

bool ends_later(const placed_tensor* a, const placed_tensor* b) {
  return a->where.end > b->where.end;
}

void drop_ended(reaching& all, const std::byte* before) {
  while (!all.empty() && all.front()->where.end <= before) {
    std::ranges::pop_heap(all, ends_later);
    all.pop_back();
  }
}

}  // namespace

void for_each_meeting(std::span<const at::Tensor> outputs, std::span<const at::Tensor> inputs,
                      function_ref<void(std::size_t, std::size_t, bool)> meet) {
  if (outputs.empty() || outputs.size() + inputs.size() == 1) return;
  c10::SmallVector<placed_tensor, 4> all;
  const auto add = [&](std::span<const at::Tensor> tensors, bool is_input) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].numel() > 0) all.push_back({extent_of(tensors[i]), i, is_input});
  };
  add(outputs, false);
  add(inputs, true);
  std::ranges::sort(all, {}, [](const placed_tensor& one) { return one.where.begin; });
  reaching written, read;
  for (const auto& one : all) {
    drop_ended(written, one.where.begin);
    drop_ended(read, one.where.begin);
    for (const auto* const other : written) {
      if (one.is_input)
        meet(other->index, one.index, true);
      else
        meet(std::max(one.index, other->index), std::min(one.index, other->index), false);
    }
    // Inputs may be the same ones.
    if (!one.is_input)
      for (const auto* const other : read) meet(one.index, other->index, true);
    auto& mine = one.is_input ? read : written;
    mine.push_back(&one);
    std::ranges::push_heap(mine, ends_later);
  }
}

bool overlap(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0 || !a.is_alias_of(b)) return false;
  const auto of_a = extent_of(a), of_b = extent_of(b);
  if (of_a.begin >= of_b.end || of_b.begin >= of_a.end) return false;
  if (of_a.begin == of_b.begin) return true;
  if (a.is_non_overlapping_and_dense() && b.is_non_overlapping_and_dense()) return true;
  const auto size = static_cast<std::int64_t>(a.element_size());
  const auto bytes = of_b.begin - of_a.begin;
  if (bytes % size != 0) return true;
  const auto distance = bytes / size;
  std::vector<bool> used(static_cast<std::size_t>((of_a.end - of_a.begin) / size));
  for_each_offset(a, [&](std::int64_t offset) { used[static_cast<std::size_t>(offset)] = true; });
  bool found = false;
  for_each_offset(b, [&](std::int64_t offset) {
    const auto there = offset + distance;
    if (there >= 0 && there < static_cast<std::int64_t>(used.size()))
      found = found || used[static_cast<std::size_t>(there)];
  });
  return found;
}

}  // namespace troupe::groups
