#include "troupe/actors/groups/reduction/reduction.hpp"

#include <c10/core/ScalarType.h>
#include <c10/util/complex.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/actors/groups/reduction/plain_reference.hpp"
#include "troupe/actors/groups/reduction/reduction_support.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::groups {
namespace {

using troupe::test::drawn;
using troupe::test::plain_reference;
using troupe::test::reduced_alike;

// Each rank has its own.
constexpr double factor_of(std::size_t rank) { return 0.3 + 0.2 * static_cast<double>(rank); }
constexpr reduce_op all_ops[] = {reduce_op::sum,  reduce_op::product, reduce_op::min,
                                 reduce_op::max,  reduce_op::band,    reduce_op::bor,
                                 reduce_op::bxor, reduce_op::avg,     reduce_op::premul_sum};

// `count` elements of `ranks` ranks, `shift` elements behind where vectors would be aligned.
template <class T>
void reduce_and_compare(reduce_op op, c10::ScalarType dtype, std::size_t ranks, std::size_t count,
                        std::size_t shift, instruction_set set, store_mode stores) {
  random_source random(ranks * 1000 + count);
  constexpr std::size_t guard = 3;
  const auto size = shift + count + guard;
  std::vector<std::unique_ptr<T[]>> arrays(ranks + 1);
  for (auto& a : arrays) {
    a = std::make_unique<T[]>(size);
    for (std::size_t i = 0; i < size; ++i) a[i] = drawn<T>(random.next());
  }
  std::vector<double> factors;
  for (std::size_t p = 0; p < ranks; ++p) factors.push_back(factor_of(p));
  auto wanted = std::make_unique<T[]>(count + 1);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<T> x;
    for (std::size_t p = 0; p < ranks; ++p) x.push_back(arrays[p][shift + i]);
    wanted[i] = plain_reference<T>::combine(op, x, factors);
  }
  std::vector<std::unique_ptr<T[]>> before(ranks + 1);
  for (std::size_t p = 0; p <= ranks; ++p) {
    before[p] = std::make_unique<T[]>(size);
    std::copy(arrays[p].get(), arrays[p].get() + size, before[p].get());
  }
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> destinations;
  for (std::size_t p = 0; p < ranks; ++p)
    sources.push_back(reinterpret_cast<std::byte*>(arrays[p].get() + shift));
  const bool in_place = stores == store_mode::cached && count % 2 == 1;
  if (in_place)
    for (std::size_t p = 0; p < ranks; ++p)
      destinations.push_back(reinterpret_cast<std::byte*>(arrays[p].get() + shift));
  else
    destinations.push_back(reinterpret_cast<std::byte*>(arrays[ranks].get() + shift));
  const reduction reduce("all_reduce", op, dtype, set);
  reduce.run(sources, destinations, static_cast<std::int64_t>(count), stores, factors.data());
  for (std::size_t p = 0; p <= ranks; ++p) {
    const bool written = in_place ? p < ranks : p == ranks;
    for (std::size_t i = 0; i < size; ++i) {
      const bool inside = written && i >= shift && i < shift + count;
      const auto& expected = inside ? wanted[i - shift] : before[p][i];
      ASSERT_TRUE(reduced_alike(arrays[p][i], expected))
          << reduction_name(op) << " of " << c10::toString(dtype) << ", " << ranks << " ranks, "
          << count << " elements from " << shift << ": element " << i << " of array " << p
          << ", kernels " << static_cast<int>(set);
    }
  }
}

template <class T>
int check_all(c10::ScalarType dtype) {
  int cases = 0;
  for (const auto op : all_ops) {
    if (!unsupported_reduction("all_reduce", op, dtype).empty()) continue;
    for (const auto set : available_instruction_sets())
      for (std::size_t ranks = 1; ranks <= 8; ++ranks)
        for (const std::size_t count : {0, 1, 2, 5, 31, 64, 65, 257, 520})
          for (const auto stores : {store_mode::cached, store_mode::streaming}) {
            reduce_and_compare<T>(op, dtype, ranks, count, (count + ranks) % 3, set, stores);
            ++cases;
            if (testing::Test::HasFatalFailure()) return cases;
          }
  }
  return cases;
}

TEST(Reduction, CombinesIntegersAsAPlainLoopDoes) {
  check_all<bool>(c10::kBool);
  check_all<std::uint8_t>(c10::kByte);
  check_all<std::int8_t>(c10::kChar);
  check_all<std::int16_t>(c10::kShort);
  check_all<std::int32_t>(c10::kInt);
  check_all<std::int64_t>(c10::kLong);
  check_all<std::uint16_t>(c10::ScalarType::UInt16);
  check_all<std::uint32_t>(c10::ScalarType::UInt32);
  check_all<std::uint64_t>(c10::ScalarType::UInt64);
}

TEST(Reduction, CombinesFloatingPointInFloat32AndRoundsOnce) {
  check_all<float>(c10::kFloat);
  check_all<double>(c10::kDouble);
  check_all<c10::Half>(c10::kHalf);
  check_all<c10::BFloat16>(c10::kBFloat16);
  check_all<c10::Float8_e5m2>(c10::ScalarType::Float8_e5m2);
  check_all<c10::Float8_e4m3fn>(c10::ScalarType::Float8_e4m3fn);
  check_all<c10::Float8_e5m2fnuz>(c10::ScalarType::Float8_e5m2fnuz);
  check_all<c10::Float8_e4m3fnuz>(c10::ScalarType::Float8_e4m3fnuz);
  check_all<c10::Float8_e8m0fnu>(c10::ScalarType::Float8_e8m0fnu);
}

TEST(Reduction, CombinesComplexNumbersPartByPart) {
  check_all<c10::complex<c10::Half>>(c10::kComplexHalf);
  check_all<c10::complex<float>>(c10::kComplexFloat);
  check_all<c10::complex<double>>(c10::kComplexDouble);
}

// 2048 + 1 is 2048 in half, so adding in half would lose every 1.
TEST(Reduction, DoesNotRoundHalfInBetween) {
  std::vector<c10::Half> values(33, c10::Half(1.f));
  values[0] = c10::Half(2048.f);
  std::vector<const std::byte*> sources;
  for (auto& v : values) sources.push_back(reinterpret_cast<const std::byte*>(&v));
  c10::Half result(0.f);
  auto* to = reinterpret_cast<std::byte*>(&result);
  reduction("all_reduce", reduce_op::sum, c10::kHalf).run(sources, {&to, 1}, 1);
  EXPECT_EQ(static_cast<float>(result), 2080.f);
}

TEST(Reduction, AveragesMoreSmallIntegersThanTheyCount) {
  std::vector<std::int8_t> values(200, -1);
  std::vector<const std::byte*> sources;
  for (auto& v : values) sources.push_back(reinterpret_cast<const std::byte*>(&v));
  std::int8_t result = 5;
  auto* to = reinterpret_cast<std::byte*>(&result);
  reduction("all_reduce", reduce_op::avg, c10::kChar).run(sources, {&to, 1}, 1);
  EXPECT_EQ(result, 0);  // -200 is 56, and 56 / 200
}

TEST(Reduction, TakesAnyByteButZeroAsTrue) {
  const std::uint8_t a[4] = {0, 2, 4, 0}, b[4] = {0, 1, 0, 128};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(a),
                                reinterpret_cast<const std::byte*>(b)};
  std::uint8_t result[4] = {9, 9, 9, 9};
  auto* to = reinterpret_cast<std::byte*>(result);
  reduction("all_reduce", reduce_op::product, c10::kBool).run(sources, {&to, 1}, 4);
  EXPECT_EQ(std::vector<std::uint8_t>(result, result + 4), (std::vector<std::uint8_t>{0, 1, 0, 0}));
  reduction("all_reduce", reduce_op::sum, c10::kBool).run(sources, {&to, 1}, 4);
  EXPECT_EQ(std::vector<std::uint8_t>(result, result + 4), (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

std::string refusal_of(reduce_op op, c10::ScalarType dtype) {
  try {
    reduction reduce("all_reduce", op, dtype);
    return "none";
  } catch (const invalid_argument& e) {
    return e.fault().text;
  }
}

TEST(Reduction, RefusesByName) {
  EXPECT_EQ(refusal_of(reduce_op::max, c10::kComplexFloat),
            "all_reduce does not support MAX on complex tensors");
  EXPECT_EQ(refusal_of(reduce_op::band, c10::kFloat),
            "all_reduce: Cannot use ReduceOp.BAND with non-integral dtype Float");
  EXPECT_EQ(refusal_of(reduce_op::avg, c10::kBool),
            "all_reduce: Cannot use ReduceOp.AVG with Bool inputs");
  EXPECT_NE(refusal_of(reduce_op::premul_sum, c10::kInt), "none");
  EXPECT_NE(refusal_of(reduce_op::sum, c10::ScalarType::Float8_e8m0fnu), "none");
  EXPECT_EQ(refusal_of(reduce_op::sum, c10::kQInt8),
            "all_reduce does not support QInt8 tensors: there is no arithmetic of them");
  EXPECT_EQ(refusal_of(reduce_op(static_cast<reduce_op>(42)), c10::kFloat),
            "all_reduce: there is no operation 42");
}

// Every dtype that libtorch has or will have: a reason, or kernels of every instruction set.
TEST(Reduction, HasAKernelForAllThatIsNotRefused) {
  int possible = 0;
  for (int d = 0; d < static_cast<int>(c10::ScalarType::NumOptions); ++d)
    for (const auto op : all_ops) {
      const auto dtype = static_cast<c10::ScalarType>(d);
      if (dtype == c10::ScalarType::Undefined) continue;
      if (!unsupported_reduction("all_reduce", op, dtype).empty()) continue;
      ++possible;
      for (const auto set : available_instruction_sets())
        EXPECT_NO_THROW(reduction("all_reduce", op, dtype, set));
    }
  EXPECT_EQ(possible, 7 + 8 * 8 + 8 * 6 + 2 + 3 * 3);
}

TEST(Reduction, CopiesToAllAndPastTheCaches) {
  for (const std::size_t bytes : {0, 1, 63, 64, 1000, 4099})
    for (const auto stores : {store_mode::cached, store_mode::streaming}) {
      std::vector<std::byte> from(bytes + 1), a(bytes + 1, std::byte{7}),
          b(bytes + 1, std::byte{7});
      for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 31);
      std::byte* to[] = {a.data(), b.data()};
      copy_to_all(to, from.data(), bytes, stores);
      EXPECT_TRUE(std::equal(from.begin(), from.end() - 1, a.begin()));
      EXPECT_EQ(a, b);
      EXPECT_EQ(a[bytes], std::byte{7});
      std::vector<std::byte> c(bytes + 1, std::byte{7});
      copy_bytes(c.data(), from.data(), bytes, stores);
      EXPECT_EQ(a, c);
    }
}

}  // namespace
}  // namespace troupe::groups
