#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "troupe/messages/tensor/tensor_layout_internal.hpp"

namespace troupe::detail {

namespace {

constexpr auto item_sizes = [] {
  std::array<std::uint8_t, static_cast<std::size_t>(c10::ScalarType::NumOptions)> sizes{};
#define TROUPE_ITEM_SIZE(type, name) \
  sizes[static_cast<std::size_t>(c10::ScalarType::name)] = sizeof(type);
  AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(TROUPE_ITEM_SIZE)
#undef TROUPE_ITEM_SIZE
  // Several elements to a byte, in a storage whose size libtorch alone knows.
  sizes[static_cast<std::size_t>(c10::ScalarType::QUInt4x2)] = 0;
  sizes[static_cast<std::size_t>(c10::ScalarType::QUInt2x4)] = 0;
  return sizes;
}();

// The schema's numbers are libtorch's.
constexpr bool same(schema::TensorType ours, c10::ScalarType theirs) {
  return static_cast<int>(ours) == static_cast<int>(theirs);
}
static_assert(same(schema::TensorType::UINT8, c10::ScalarType::Byte));
static_assert(same(schema::TensorType::BOOL, c10::ScalarType::Bool));
static_assert(same(schema::TensorType::QINT32, c10::ScalarType::QInt32));
static_assert(same(schema::TensorType::BFLOAT16, c10::ScalarType::BFloat16));
static_assert(same(schema::TensorType::FLOAT8_E4M3FNUZ, c10::ScalarType::Float8_e4m3fnuz));
static_assert(same(schema::TensorType::UINT64, c10::ScalarType::UInt64));
static_assert(same(schema::TensorType::INT7, c10::ScalarType::Int7));
static_assert(same(schema::TensorType::FLOAT4_E2M1FN_X2, c10::ScalarType::Float4_e2m1fn_x2));

}  // namespace

std::size_t element_size(schema::TensorType type) noexcept {
  const auto index = static_cast<std::size_t>(type);
  return index < item_sizes.size() ? item_sizes[index] : 0;
}

std::optional<std::int64_t> element_count(c10::IntArrayRef sizes, std::size_t item) noexcept {
  auto bytes = static_cast<std::int64_t>(item);
  bool empty = false;
  for (const auto size : sizes) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes / static_cast<std::int64_t>(item);
}

std::optional<std::int64_t> element_extent(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                           std::size_t item) noexcept {
  std::int64_t last = 0;
  bool empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (strides[i] < 0) return std::nullopt;
    if (sizes[i] == 0) empty = true;
    if (sizes[i] <= 1) continue;
    std::int64_t step;
    if (__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  }
  if (last >= std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(item))
    return std::nullopt;
  return empty ? 0 : last + 1;
}

c10::DimVector row_major_strides(c10::IntArrayRef sizes) {
  c10::DimVector strides(sizes.begin(), sizes.end());
  std::int64_t next = 1;
  for (auto i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides) noexcept {
  std::int64_t next = 1;
  for (auto i = sizes.size(); i-- > 0;) {
    if (strides[i] != next) return false;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return true;
}

c10::DimVector compact_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return strides[a] != strides[b] ? strides[a] < strides[b] : a > b;
  });
  c10::DimVector out(strides.begin(), strides.end());
  std::int64_t next = 1;
  for (const auto i : order) {
    if (strides[i] == 0) continue;
    out[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return out;
}

c10::DimVector distinct_sizes(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  c10::DimVector out(sizes.begin(), sizes.end());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (strides[i] == 0 && out[i] > 1) out[i] = 1;
  return out;
}

bool quantizer_fits(schema::TensorType type, double scale, double zero_point) noexcept {
  if (!std::isfinite(scale) || !std::isfinite(zero_point)) return false;
  switch (type) {
    case schema::TensorType::QINT8: return zero_point >= -128 && zero_point <= 127;
    case schema::TensorType::QUINT8: return zero_point >= 0 && zero_point <= 255;
    case schema::TensorType::QINT32:
      return zero_point >= std::numeric_limits<std::int32_t>::min() &&
             zero_point <= std::numeric_limits<std::int32_t>::max();
    default: return false;
  }
}

}  // namespace troupe::detail
