#include "troupe/actors/groups/mesh/mesh_axis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

mesh_axis::mesh_axis(std::span<const mesh_digit> digits) {
  for (const auto& one : digits) {
    if (one.count == 1) continue;
    if (!digits_.empty() && digits_.back().stride == one.stride * one.count)
      digits_.back() = {digits_.back().count * one.count, one.stride};
    else
      digits_.push_back(one);
  }
}

std::vector<mesh_axis> mesh_axis::row_major(std::span<const std::int64_t> shape) {
  std::vector<mesh_axis> out(shape.size());
  std::int64_t stride = 1;
  for (auto i = shape.size(); i-- > 0;) {
    if (shape[i] < 1 || shape[i] > std::numeric_limits<std::int32_t>::max() / stride)
      throw invalid_argument(
          fmt::format("a mesh cannot have the shape ({}): sizes are 1 and more, and their product "
                      "fits an int",
                      fmt::join(shape, ", ")));
    const mesh_digit digit{shape[i], stride};
    out[i] = mesh_axis(std::span(&digit, 1));
    stride *= shape[i];
  }
  return out;
}

mesh_axis mesh_axis::joined(std::span<const mesh_axis> axes) {
  std::vector<mesh_digit> all;
  for (const auto& one : axes) all.insert(all.end(), one.digits_.begin(), one.digits_.end());
  return mesh_axis(all);
}

std::vector<mesh_axis> mesh_axis::split(std::span<const std::int64_t> sizes) const {
  std::int64_t product = 1;
  for (const auto one : sizes) {
    if (one < 1 || one > size()) {
      product = 0;
      break;
    }
    product *= one;
    if (product > size()) break;
  }
  if (product != size())
    throw invalid_argument(
        fmt::format("The product of mesh_sizes=({}) is not the {} of the original dimension. These "
                    "must be equal for unflatten to work correctly.",
                    fmt::join(sizes, ", "), size()));
  auto left = digits_;  // the last one is taken first
  std::vector<mesh_axis> out(sizes.size());
  for (auto i = sizes.size(); i-- > 0;) {
    std::vector<mesh_digit> taken;
    for (auto wanted = sizes[i]; wanted > 1;) {
      auto& last = left.back();
      const auto part = std::min(wanted, last.count);
      if (wanted % part != 0 || last.count % part != 0)
        throw invalid_argument(fmt::format(
            "a flattened dimension cannot be unflattened to ({}): its parts lie {} at a time",
            fmt::join(sizes, ", "), last.count));
      taken.insert(taken.begin(), {part, last.stride});
      wanted /= part;
      last = {last.count / part, last.stride * part};
      if (last.count == 1) left.pop_back();
    }
    out[i] = mesh_axis(taken);
  }
  return out;
}

std::int64_t mesh_axis::size() const noexcept {
  std::int64_t out = 1;
  for (const auto& one : digits_) out *= one.count;
  return out;
}

std::int64_t mesh_axis::offset(std::int64_t index) const noexcept {
  std::int64_t out = 0;
  for (auto one = digits_.rbegin(); one != digits_.rend(); ++one) {
    out += index % one->count * one->stride;
    index /= one->count;
  }
  return out;
}

std::int64_t mesh_axis::index_of(std::int64_t place) const noexcept {
  std::int64_t out = 0;
  for (const auto& one : digits_) out = out * one.count + place / one.stride % one.count;
  return out;
}

std::vector<std::int64_t> mesh_offsets(std::span<const mesh_axis> axes) {
  std::vector<std::int64_t> out{0};
  for (const auto& axis : axes) {
    std::vector<std::int64_t> finer;
    finer.reserve(out.size() * static_cast<std::size_t>(axis.size()));
    for (const auto begin : out)
      for (std::int64_t i = 0; i < axis.size(); ++i) finer.push_back(begin + axis.offset(i));
    out = std::move(finer);
  }
  return out;
}

}  // namespace troupe::groups
