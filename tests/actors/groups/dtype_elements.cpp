#include "tests/actors/groups/dtype_elements.hpp"

#include <ATen/ops/empty.h>

#include <cstring>
#include <stdexcept>

#include "tests/actors/groups/reduction/plain_reference.hpp"
#include "troupe/messages/base/random.hpp"

namespace troupe::test {

namespace {

// Calls `f` with a value of the elements' type. False: the dtype has none that is computed with.
template <class F>
bool with_element(at::ScalarType dtype, F f) {
  switch (dtype) {
    case at::kBool: return f(bool()), true;
    case at::kByte: return f(std::uint8_t()), true;
    case at::kChar: return f(std::int8_t()), true;
    case at::kShort: return f(std::int16_t()), true;
    case at::kInt: return f(std::int32_t()), true;
    case at::kLong: return f(std::int64_t()), true;
    case at::kUInt16: return f(std::uint16_t()), true;
    case at::kUInt32: return f(std::uint32_t()), true;
    case at::kUInt64: return f(std::uint64_t()), true;
    case at::kHalf: return f(c10::Half()), true;
    case at::kBFloat16: return f(c10::BFloat16()), true;
    case at::kFloat: return f(float()), true;
    case at::kDouble: return f(double()), true;
    case at::kFloat8_e5m2: return f(c10::Float8_e5m2()), true;
    case at::kFloat8_e4m3fn: return f(c10::Float8_e4m3fn()), true;
    case at::kFloat8_e5m2fnuz: return f(c10::Float8_e5m2fnuz()), true;
    case at::kFloat8_e4m3fnuz: return f(c10::Float8_e4m3fnuz()), true;
    case at::kFloat8_e8m0fnu: return f(c10::Float8_e8m0fnu()), true;
    case at::kComplexHalf: return f(c10::complex<c10::Half>()), true;
    case at::kComplexFloat: return f(c10::complex<float>()), true;
    case at::kComplexDouble: return f(c10::complex<double>()), true;
    default: return false;
  }
}

template <class T>
const T* elements_of(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}

}  // namespace

const std::vector<at::ScalarType>& numeric_dtypes() {
  static const std::vector<at::ScalarType> all{at::kBool,
                                               at::kByte,
                                               at::kChar,
                                               at::kShort,
                                               at::kInt,
                                               at::kLong,
                                               at::kUInt16,
                                               at::kUInt32,
                                               at::kUInt64,
                                               at::kHalf,
                                               at::kBFloat16,
                                               at::kFloat,
                                               at::kDouble,
                                               at::kFloat8_e5m2,
                                               at::kFloat8_e4m3fn,
                                               at::kFloat8_e5m2fnuz,
                                               at::kFloat8_e4m3fnuz,
                                               at::kFloat8_e8m0fnu,
                                               at::kComplexHalf,
                                               at::kComplexFloat,
                                               at::kComplexDouble};
  return all;
}

const std::vector<at::ScalarType>& opaque_dtypes() {
  using enum at::ScalarType;
  static const std::vector<at::ScalarType> all{Bits1x8, Bits2x4, Bits4x2, Bits8, Bits16,
                                               UInt1,   UInt4,   UInt7,   Int4,  Float4_e2m1fn_x2};
  return all;
}

at::Tensor drawn_row(at::ScalarType dtype, std::int64_t count, std::uint64_t seed) {
  const auto out = at::empty({count}, at::TensorOptions(dtype));
  random_source random(seed * 1'000 + static_cast<std::uint64_t>(count));
  auto* const to = static_cast<std::byte*>(out.mutable_data_ptr());
  const bool numeric = with_element(dtype, [&](auto element) {
    using T = decltype(element);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = drawn<T>(random.next());
      std::memcpy(to + static_cast<std::size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
  if (!numeric)
    for (std::size_t i = 0; i < out.nbytes(); ++i) to[i] = static_cast<std::byte>(random.next());
  return out;
}

at::Tensor plainly_reduced(const std::vector<at::Tensor>& rows, reduce_op op,
                           const std::vector<double>& factors) {
  const auto out = at::empty(rows[0].sizes(), rows[0].options());
  const bool numeric = with_element(out.scalar_type(), [&](auto element) {
    using T = decltype(element);
    auto* const to = static_cast<T*>(out.mutable_data_ptr());
    std::vector<T> of_ranks(rows.size());
    for (std::int64_t i = 0; i < out.numel(); ++i) {
      for (std::size_t rank = 0; rank < rows.size(); ++rank)
        of_ranks[rank] = elements_of<T>(rows[rank])[i];
      to[i] = plain_reference<T>::combine(op, of_ranks, factors);
    }
  });
  if (!numeric) throw std::invalid_argument("no elements to combine");
  return out;
}

bool alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const auto x = a.contiguous(), y = b.contiguous();
  bool same = true;
  const bool numeric = with_element(a.scalar_type(), [&](auto element) {
    using T = decltype(element);
    for (std::int64_t i = 0; i < x.numel(); ++i)
      same = same && reduced_alike(elements_of<T>(x)[i], elements_of<T>(y)[i]);
  });
  return numeric ? same
                 : x.nbytes() == 0 ||
                       std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace troupe::test
