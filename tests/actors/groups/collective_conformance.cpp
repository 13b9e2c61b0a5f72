#include "tests/actors/groups/collective_conformance.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/actors/groups/group_testing.hpp"

namespace troupe::test {

namespace {

using testing::HasSubstr;

thread_local c10::Device where(c10::kCPU);

at::TensorOptions options_of(at::ScalarType dtype) {
  return at::TensorOptions(dtype).device(where);
}

bool is_float8(at::ScalarType dtype) { return c10::isFloat8Type(dtype); }

// The type in which values of `dtype` are computed by the reference.
at::ScalarType wide(at::ScalarType dtype) {
  if (dtype == at::kHalf || dtype == at::kBFloat16 || is_float8(dtype)) return at::kFloat;
  if (dtype == at::kBool) return at::kLong;
  return dtype;
}

std::string described(const process_group& group, at::ScalarType dtype, std::int64_t count) {
  return std::string(c10::toString(dtype)) + ", " + std::to_string(count) + " elements, rank " +
         std::to_string(group.rank()) + " of " + std::to_string(group.size());
}

std::vector<at::Tensor> values_of_all(int size, std::vector<std::int64_t> sizes,
                                      at::ScalarType dtype, int salt = 0) {
  std::vector<at::Tensor> out;
  for (int rank = 0; rank < size; ++rank) out.push_back(values_of(rank, sizes, dtype, salt));
  return out;
}

}  // namespace

conformance_device::conformance_device(c10::Device device)
    : before_(std::exchange(where, device)) {}
conformance_device::~conformance_device() { where = before_; }

namespace {

at::Tensor host_values_of(int rank, std::vector<std::int64_t> sizes, at::ScalarType dtype,
                          int salt) {
  std::int64_t count = 1;
  for (const auto one : sizes) count *= one;
  auto numbers = (at::arange(count, at::kLong) * 7 + rank * 3 + salt).remainder(5) + 1;
  if (dtype == at::kBool) return (numbers.remainder(2) == 0).reshape(sizes);
  if (c10::isComplexType(dtype)) {
    const auto real = dtype == at::kComplexDouble ? at::kDouble : at::kFloat;
    auto out = at::empty(sizes, dtype);
    out.copy_(numbers.to(real).reshape(sizes));
    out.mul_(c10::Scalar(c10::complex<double>(1, 2)));
    return out;
  }
  if (is_float8(dtype) || dtype == at::kHalf || dtype == at::kBFloat16)
    return numbers.to(at::kFloat).to(dtype).reshape(sizes);
  return numbers.to(dtype).reshape(sizes);
}

}  // namespace

at::Tensor values_of(int rank, std::vector<std::int64_t> sizes, at::ScalarType dtype, int salt) {
  return host_values_of(rank, std::move(sizes), dtype, salt).to(where);
}

at::Tensor combined(const std::vector<at::Tensor>& tensors, reduce_op op) {
  const auto dtype = tensors[0].scalar_type();
  auto out = tensors[0].cpu().to(wide(dtype)).clone();
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const auto next = tensors[i].cpu().to(wide(dtype));
    switch (op) {
      case reduce_op::sum:
      case reduce_op::avg: out = out + next; break;
      case reduce_op::product: out = out * next; break;
      case reduce_op::min: out = out.minimum(next); break;
      case reduce_op::max: out = out.maximum(next); break;
      case reduce_op::band: out = out.bitwise_and(next); break;
      case reduce_op::bor: out = out.bitwise_or(next); break;
      case reduce_op::bxor: out = out.bitwise_xor(next); break;
      case reduce_op::premul_sum: out = out + next; break;
    }
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  if (op == reduce_op::avg) {
    if (c10::isIntegralType(dtype, false))
      out = out.div(count, "trunc").to(dtype);
    else if (c10::isComplexType(dtype))
      at::view_as_real(out).div_(count);
    else
      out = out / count;
  }
  if (dtype == at::kBool) return out != 0;
  return out.to(dtype);
}

std::vector<reduce_op> reductions_of(at::ScalarType dtype) {
  using enum reduce_op;
  if (c10::isComplexType(dtype)) return {sum, avg};
  if (dtype == at::kBool) return {sum, product, min, max, band, bor, bxor};
  if (c10::isIntegralType(dtype, false)) return {sum, product, min, max, avg, band, bor, bxor};
  return {sum, product, min, max, avg};
}

std::vector<at::ScalarType> moved_dtypes() {
  return {at::kBool,         at::kByte,          at::kChar,        at::kShort,        at::kInt,
          at::kLong,         at::kHalf,          at::kBFloat16,    at::kFloat,        at::kDouble,
          at::kComplexFloat, at::kComplexDouble, at::kFloat8_e5m2, at::kFloat8_e4m3fn};
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

void check_broadcast(const process_group& group, at::ScalarType dtype, std::int64_t count) {
  for (int src = 0; src < group.size(); ++src) {
    const auto x = values_of(group.rank(), {count}, dtype, 1);
    broadcast(group, x, src);
    EXPECT_TRUE(same_bits(x, values_of(src, {count}, dtype, 1)))
        << "broadcast from " << src << ", " << described(group, dtype, count);
  }
}

void check_reductions(const process_group& group, at::ScalarType dtype, reduce_op op,
                      std::int64_t count) {
  const auto me = group.rank(), size = group.size();
  const auto about = std::string(groups::to_string(op)) + ", " + described(group, dtype, count);
  const auto expected = combined(values_of_all(size, {count}, dtype), op);
  const auto x = values_of(me, {count}, dtype);
  all_reduce(group, x, op);
  EXPECT_TRUE(same_bits(x, expected)) << "all_reduce " << about << "\n" << x << expected;

  const int dst = static_cast<int>(count % size);
  const auto mine = values_of(me, {count}, dtype);
  const auto before = mine.clone();
  reduce(group, mine, dst, op);
  EXPECT_TRUE(same_bits(mine, me == dst ? expected : before)) << "reduce " << about;

  const auto whole = values_of(me, {size, count}, dtype);
  const auto sums = combined(values_of_all(size, {size, count}, dtype), op);
  const auto part = at::empty({count}, whole.options());
  reduce_scatter_tensor(group, part, whole, op);
  EXPECT_TRUE(same_bits(part, sums[me])) << "reduce_scatter_tensor " << about;

  // Parts of different sizes.
  std::vector<at::Tensor> parts;
  for (int rank = 0; rank < size; ++rank)
    parts.push_back(values_of(me, {count + rank}, dtype, rank));
  const auto out = at::empty({count + me}, whole.options());
  reduce_scatter(group, out, parts, op);
  EXPECT_TRUE(same_bits(out, combined(values_of_all(size, {count + me}, dtype, me), op)))
      << "reduce_scatter " << about;
}

void check_gathers(const process_group& group, at::ScalarType dtype, std::int64_t count) {
  const auto me = group.rank(), size = group.size();
  const auto about = described(group, dtype, count);
  const auto options = options_of(dtype);
  const auto all = values_of_all(size, {count}, dtype);

  const auto joined = at::empty({size * count}, options),
             stacked = at::empty({size, count}, options);
  all_gather_into_tensor(group, joined, all[static_cast<std::size_t>(me)]);
  all_gather_into_tensor(group, stacked, all[static_cast<std::size_t>(me)]);
  std::vector<at::Tensor> uneven;
  for (int rank = 0; rank < size; ++rank) uneven.push_back(at::empty({count + rank}, options));
  all_gather(group, uneven, values_of(me, {count + me}, dtype, 2));
  const int root = static_cast<int>((count + 1) % size);
  std::vector<at::Tensor> gathered, scattered;
  if (me == root) {
    for (int rank = 0; rank < size; ++rank) {
      gathered.push_back(at::empty({count + rank}, options));
      scattered.push_back(values_of(rank, {count + rank}, dtype, 4));
    }
  }
  gather(group, values_of(me, {count + me}, dtype, 3), gathered, root);
  const auto taken = at::empty({count + me}, options);
  scatter(group, taken, scattered, root);
  EXPECT_TRUE(same_bits(taken, values_of(me, {count + me}, dtype, 4))) << "scatter, " << about;
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    EXPECT_TRUE(same_bits(stacked[rank], all[at])) << "all_gather_into_tensor, " << about;
    EXPECT_TRUE(same_bits(joined.slice(0, rank * count, (rank + 1) * count), all[at]))
        << "all_gather_into_tensor, joined, " << about;
    EXPECT_TRUE(same_bits(uneven[at], values_of(rank, {count + rank}, dtype, 2)))
        << "all_gather, " << about;
    if (me == root) {
      EXPECT_TRUE(same_bits(gathered[at], values_of(rank, {count + rank}, dtype, 3)))
          << "gather, " << about;
    }
  }
}

void check_all_to_all(const process_group& group, at::ScalarType dtype, std::int64_t count) {
  const auto me = group.rank(), size = group.size();
  const auto about = described(group, dtype, count);
  const auto options = options_of(dtype);
  // From rank a to rank b go count + a + 2b rows.
  const auto rows = [&](int a, int b) { return count + a + 2 * b; };
  std::vector<at::Tensor> in, out;
  std::vector<std::int64_t> in_splits, out_splits;
  for (int rank = 0; rank < size; ++rank) {
    in.push_back(values_of(me, {rows(me, rank), 2}, dtype, rank));
    out.push_back(at::empty({rows(rank, me), 2}, options));
    in_splits.push_back(rows(me, rank));
    out_splits.push_back(rows(rank, me));
  }
  all_to_all(group, out, in);
  std::int64_t all_out = 0;
  for (const auto one : out_splits) all_out += one;
  // cat has no 8-bit floating-point types.
  std::int64_t all_in = 0;
  for (const auto one : in_splits) all_in += one;
  const auto single_in = at::empty({all_in, 2}, options), single = at::empty({all_out, 2}, options);
  std::int64_t row = 0;
  for (const auto& one : in) {
    single_in.slice(0, row, row + one.size(0)).copy_(one);
    row += one.size(0);
  }
  all_to_all_single(group, single, single_in, out_splits, in_splits);
  row = 0;
  for (int rank = 0; rank < size; ++rank) {
    const auto expected = values_of(rank, {rows(rank, me), 2}, dtype, me);
    EXPECT_TRUE(same_bits(out[static_cast<std::size_t>(rank)], expected))
        << "all_to_all, " << about;
    EXPECT_TRUE(same_bits(single.slice(0, row, row + expected.size(0)), expected))
        << "all_to_all_single, " << about;
    row += expected.size(0);
  }
  const auto even_in = values_of(me, {size * count}, dtype),
             even = at::empty({size * count}, options);
  all_to_all_single(group, even, even_in);
  for (int rank = 0; rank < size; ++rank)
    EXPECT_TRUE(
        same_bits(even.slice(0, rank * count, (rank + 1) * count),
                  values_of(rank, {size * count}, dtype).slice(0, me * count, (me + 1) * count)))
        << "all_to_all_single, equal parts, " << about;
}

void check_coalesced(const process_group& group) {
  const auto me = group.rank(), size = group.size();
  const std::vector<std::vector<std::int64_t>> shapes{{3}, {0}, {2, 5000}, {}, {4, 1}};
  std::vector<at::Tensor> reduced, gathered, inputs, scattered, wholes;
  for (const auto& shape : shapes) {
    reduced.push_back(values_of(me, shape, at::kFloat));
    inputs.push_back(values_of(me, shape, at::kFloat));
    auto larger = shape;
    larger.insert(larger.begin(), size);
    gathered.push_back(at::empty(larger, options_of(at::kFloat)));
    wholes.push_back(values_of(me, larger, at::kFloat));
    scattered.push_back(at::empty(shape, options_of(at::kFloat)));
  }
  all_reduce_coalesced(group, reduced);
  all_gather_coalesced(group, gathered, inputs);
  reduce_scatter_coalesced(group, scattered, wholes, reduce_op::max);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_TRUE(same_bits(reduced[i],
                          combined(values_of_all(size, shapes[i], at::kFloat), reduce_op::sum)));
    auto larger = shapes[i];
    larger.insert(larger.begin(), size);
    EXPECT_TRUE(same_bits(
        scattered[i],
        combined(values_of_all(size, larger, at::kFloat), reduce_op::max)[me].contiguous()));
    for (int rank = 0; rank < size; ++rank)
      EXPECT_TRUE(same_bits(gathered[i][rank], values_of(rank, shapes[i], at::kFloat)));
  }
  all_reduce_coalesced(group, {});
}

void check_shapes(const process_group& group) {
  const auto me = group.rank(), size = group.size();
  // Strides that are none of a contiguous tensor, and gaps that stay as they are.
  const auto base = values_of(me, {6, 8}, at::kFloat);
  const auto view = base.t().slice(0, 1, 8, 2);
  const auto before = base.clone();
  all_reduce(group, view);
  std::vector<at::Tensor> views;
  for (int rank = 0; rank < size; ++rank)
    views.push_back(values_of(rank, {6, 8}, at::kFloat).t().slice(0, 1, 8, 2));
  EXPECT_TRUE(same_bits(view, combined(views, reduce_op::sum)));
  EXPECT_TRUE(same_bits(base.t().slice(0, 0, 8, 2), before.t().slice(0, 0, 8, 2)));
  // No element, and no dimension.
  const auto none = at::empty({0, 4}, options_of(at::kFloat));
  all_reduce(group, none);
  broadcast(group, none, size - 1);
  const auto scalar = at::full({}, me, options_of(at::kLong));
  all_reduce(group, scalar);
  EXPECT_EQ(scalar.item<std::int64_t>(), size * (size - 1) / 2);
  const auto all = at::empty({size}, options_of(at::kLong));
  all_gather_into_tensor(group, all, at::full({}, me, options_of(at::kLong)));
  EXPECT_TRUE(same_bits(all, at::arange(size, at::kLong)));
  // Conjugated in name alone.
  const auto complex = values_of(me, {3}, at::kComplexFloat);
  all_reduce(group, complex.conj());
  EXPECT_TRUE(
      same_bits(complex, combined(values_of_all(size, {3}, at::kComplexFloat), reduce_op::sum)));
}

void check_in_place(const process_group& group) {
  const auto me = group.rank(), size = group.size();
  for (const std::int64_t count : {4, 40'000}) {
    const auto whole = at::zeros({size, count}, options_of(at::kInt));
    whole[me].copy_(values_of(me, {count}, at::kInt));
    const auto version = whole._version();
    all_gather_into_tensor(group, whole, whole[me]);
    EXPECT_EQ(whole._version(), version + 1);
    for (int rank = 0; rank < size; ++rank)
      EXPECT_TRUE(same_bits(whole[rank], values_of(rank, {count}, at::kInt)));
    const auto parts = values_of(me, {size, count}, at::kInt);
    reduce_scatter_tensor(group, parts[me], parts);
    EXPECT_TRUE(same_bits(
        parts[me], combined(values_of_all(size, {size, count}, at::kInt), reduce_op::sum)[me]));
  }
}

void check_disagreements(const std::function<process_group()>& make_group, int rank) {
  const auto fails = [&](const std::function<void(const process_group&)>& body,
                         const std::vector<std::string>& texts) {
    const auto group = make_group();
    const auto text = thrown_text<collective_mismatch>([&] { body(group); });
    for (const auto& one : texts) EXPECT_THAT(text, HasSubstr(one));
    EXPECT_THAT(thrown_text<group_failed>([&] { barrier(group); }), HasSubstr("takes no more"));
  };
  const bool odd = rank == 1;
  const auto x = at::full({10}, rank, at::kFloat);
  const auto before = x.clone();
  fails([&](const auto& group) { odd ? barrier(group) : all_reduce(group, x); },
        {"the ranks disagree", "rank 1 asked for barrier, sequence number 1",
         "asked for all_reduce(sum) of 10 elements of Float, sequence number 1"});
  fails([&](const auto& group) { all_reduce(group, odd ? at::full({20}, 1, at::kFloat) : x); },
        {"rank 1 asked for all_reduce(sum) of 20 elements of Float"});
  fails([&](const auto& group) { all_reduce(group, odd ? x.to(at::kDouble) : x); },
        {"rank 1 asked for all_reduce(sum) of 10 elements of Double"});
  fails([&](const auto& group) { all_reduce(group, x, odd ? reduce_op::max : reduce_op::sum); },
        {"rank 1 asked for all_reduce(max)"});
  fails([&](const auto& group) { broadcast(group, x, odd ? 1 : 0); },
        {"rank 1 asked for broadcast of 10 elements of Float with root 1"});
  // Nothing was written.
  EXPECT_TRUE(same_bits(x, before));
}

}  // namespace troupe::test
