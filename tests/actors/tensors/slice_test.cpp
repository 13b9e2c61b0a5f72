// Slices of tensors, against the indexing of Python, element by element.
#include "troupe/actors/tensors/slice.hpp"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "troupe/messages/base/error.hpp"

namespace troupe::test {

namespace {

// The places that a slice names in a dimension, as Python's slice.indices says.
std::vector<std::int64_t> places(const slice& s, std::int64_t size) {
  const auto bound = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  std::vector<std::int64_t> out;
  for (auto i = bound(s.begin); i < bound(s.end); i += s.step) out.push_back(i);
  return out;
}

TEST(slices, name_the_places_that_python_s_would) {
  std::mt19937_64 random(7);
  const auto number = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int round = 0; round < 500; ++round) {
    const auto rows = number(0, 7);
    const auto columns = number(0, 7);
    const auto whole = at::arange(rows * columns).reshape({rows, columns});
    std::vector<slice> which;
    for (auto i = number(0, 2); i > 0; --i)
      which.push_back(
          {number(-9, 9), number(0, 3) == 0 ? slice().end : number(-9, 9), number(1, 3)});
    const auto in_rows = places(which.empty() ? slice() : which[0], rows);
    const auto in_columns = places(which.size() < 2 ? slice() : which[1], columns);
    for (const auto& part : {detail::sliced(whole, which), detail::copy_of_slices(whole, which)}) {
      ASSERT_EQ(part.size(0), static_cast<std::int64_t>(in_rows.size()));
      ASSERT_EQ(part.size(1), static_cast<std::int64_t>(in_columns.size()));
      for (std::size_t i = 0; i < in_rows.size(); ++i)
        for (std::size_t j = 0; j < in_columns.size(); ++j)
          ASSERT_EQ(
              part[static_cast<std::int64_t>(i)][static_cast<std::int64_t>(j)].item<std::int64_t>(),
              in_rows[i] * columns + in_columns[j]);
    }
    EXPECT_TRUE(detail::copy_of_slices(whole, which).is_contiguous());
  }
}

TEST(slices, that_do_not_fit_are_refused) {
  const auto row = at::arange(5);
  EXPECT_THROW(detail::sliced(row, {{0, 1}, {0, 1}}), invalid_argument);
  EXPECT_THROW(detail::sliced(row, {{0, 1, 0}}), invalid_argument);
  EXPECT_THROW(detail::sliced(row, {{0, 1, -1}}), invalid_argument);
  EXPECT_THROW(detail::sliced(row[0], {{0, 1}}), invalid_argument);
}

}  // namespace

}  // namespace troupe::test
