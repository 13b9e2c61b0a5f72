#include "troupe/apps/mesh_matmul/block.hpp"

#include <ATen/ops/empty.h>

namespace mesh_matmul {

namespace {

// splitmix64's last step (Steele, Lea and Flood, 2014).
std::uint64_t mixed(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// Of an element by its row and column.
std::int64_t integer_at(std::uint64_t seed, std::int64_t row, std::int64_t column,
                        std::int64_t largest) noexcept {
  const auto place = static_cast<std::uint64_t>(row) << 32 | static_cast<std::uint64_t>(column);
  const auto count = static_cast<std::uint64_t>(2 * largest + 1);
  return static_cast<std::int64_t>(mixed(mixed(seed + 0x9e3779b97f4a7c15) + place) % count) -
         largest;
}

}  // namespace

extent part_of(std::int64_t size, std::int64_t index, std::int64_t parts) noexcept {
  return {size * index / parts, size * (index + 1) / parts};
}

std::int64_t part_with(std::int64_t size, std::int64_t at, std::int64_t parts) noexcept {
  auto index = at * parts / size;
  while (part_of(size, index, parts).end <= at) ++index;
  return index;
}

at::Tensor block_of(std::uint64_t seed, extent rows, extent columns) {
  auto out = at::empty({rows.size(), columns.size()}, at::kFloat);
  auto* to = out.mutable_data_ptr<float>();
  for (auto row = rows.begin; row < rows.end; ++row)
    for (auto column = columns.begin; column < columns.end; ++column)
      *to++ = static_cast<float>(integer_at(seed, row, column, 2));
  return out;
}

at::Tensor vector_of(std::uint64_t seed, extent elements) {
  auto out = at::empty({elements.size()}, at::kDouble);
  auto* to = out.mutable_data_ptr<double>();
  for (auto i = elements.begin; i < elements.end; ++i)
    *to++ = static_cast<double>(integer_at(seed, i, 0, 999));
  return out;
}

}  // namespace mesh_matmul
