#include "troupe/actors/groups/mesh/mesh_axis.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <random>

#include "troupe/messages/base/error.hpp"

using namespace troupe;
using namespace troupe::groups;

namespace {

std::vector<std::int64_t> values(const at::Tensor& of) {
  const auto flat = of.contiguous().view(-1);
  return {flat.const_data_ptr<std::int64_t>(), flat.const_data_ptr<std::int64_t>() + flat.numel()};
}

// The factors of `n`, shuffled, in some products.
std::vector<std::int64_t> random_factors(std::int64_t n, std::mt19937& random) {
  std::vector<std::int64_t> out;
  for (std::int64_t p = 2; n > 1;) {
    if (n % p) {
      ++p;
      continue;
    }
    if (!out.empty() && random() % 3 == 0)
      out[random() % out.size()] *= p;
    else
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(random() % (out.size() + 1)), p);
    n /= p;
  }
  if (out.empty()) out.push_back(1);
  return out;
}

}  // namespace

// Axes do what views of a tensor do.
TEST(mesh_axes, are_cut_flattened_and_split_as_views_of_tensors_are) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<std::int64_t> shape;
    for (auto n = 1 + random() % 4; n > 0; --n)
      shape.push_back(static_cast<std::int64_t>(1 + random() % 5));
    auto axes = mesh_axis::row_major(shape);
    std::int64_t places = 1;
    for (const auto one : shape) places *= one;
    auto ranks = at::arange(places, at::kLong).view(shape);

    // Some dimensions, in any order, at the index 0 of the others.
    std::vector<std::int64_t> order(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
    std::shuffle(order.begin(), order.end(), random);
    const auto kept = 1 + random() % order.size();
    auto slice = ranks.permute(order);
    std::vector<mesh_axis> of_slice;
    for (std::size_t i = 0; i < kept; ++i)
      of_slice.push_back(axes[static_cast<std::size_t>(order[i])]);
    for (auto i = kept; i < order.size(); ++i) slice = slice.select(-1, 0);
    EXPECT_EQ(mesh_offsets(of_slice), values(slice));

    // One axis of them.
    const auto flat = mesh_axis::joined(of_slice);
    const auto list = values(slice);
    ASSERT_EQ(flat.size(), static_cast<std::int64_t>(list.size()));
    for (std::int64_t i = 0; i < flat.size(); ++i) {
      EXPECT_EQ(flat.offset(i), list[static_cast<std::size_t>(i)]);
      EXPECT_EQ(flat.index_of(flat.offset(i)), i);
    }

    // And several of that one. What does not divide is refused, and only where it lies apart.
    const auto sizes = random_factors(flat.size(), random);
    try {
      const auto parts = flat.split(sizes);
      ASSERT_EQ(parts.size(), sizes.size());
      for (std::size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(parts[i].size(), sizes[i]);
      EXPECT_EQ(mesh_offsets(parts), list);
      EXPECT_EQ(mesh_axis::joined(parts), flat);
    } catch (const invalid_argument&) {
      bool steady = true;
      for (std::size_t i = 1; i < list.size(); ++i)
        steady = steady && list[i] - list[i - 1] == list[1] - list[0];
      EXPECT_FALSE(steady);
    }
  }
}

TEST(mesh_axes, refuse_shapes_that_cannot_be) {
  EXPECT_THROW(mesh_axis::row_major(std::vector<std::int64_t>{2, 0}), invalid_argument);
  EXPECT_THROW(mesh_axis::row_major(std::vector<std::int64_t>{-1}), invalid_argument);
  EXPECT_THROW(mesh_axis::row_major(std::vector<std::int64_t>{1 << 20, 1 << 20}), invalid_argument);
  const auto axis = mesh_axis::row_major(std::vector<std::int64_t>{6})[0];
  for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
           {}, {2, 2}, {6, 2}, {-2, -3}, {0}, {std::int64_t{1} << 62, 4}})
    EXPECT_THROW(axis.split(sizes), invalid_argument);
  EXPECT_EQ(axis.split(std::vector<std::int64_t>{1, 6, 1})[1], axis);
}
