#include "double_reduce.hpp"

#include <c10/util/BFloat16.h>
#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace troupe::test::nccl_double {

namespace {

using groups::nccl::data_type;
using groups::nccl::reduction;

template <class Value, class Sum>
void combine_as(std::span<const std::byte* const> sources, std::span<const double> factors,
                std::byte* to, std::size_t count, reduction how) {
  for (std::size_t i = 0; i < count; ++i) {
    Sum out{};
    for (std::size_t rank = 0; rank < sources.size(); ++rank) {
      Value value;
      std::memcpy(&value, sources[rank] + i * sizeof(Value), sizeof value);
      auto next = static_cast<Sum>(value);
      if (!factors.empty()) next = static_cast<Sum>(next * static_cast<Sum>(factors[rank]));
      if (rank == 0) {
        out = next;
        continue;
      }
      switch (how) {
        case reduction::product: out = static_cast<Sum>(out * next); break;
        case reduction::max: out = std::max(out, next); break;
        case reduction::min: out = std::min(out, next); break;
        default: out = static_cast<Sum>(out + next);
      }
    }
    if (how == reduction::avg) out = static_cast<Sum>(out / static_cast<Sum>(sources.size()));
    const auto result = static_cast<Value>(out);
    std::memcpy(to + i * sizeof(Value), &result, sizeof result);
  }
}

}  // namespace

std::size_t size_of(data_type type) noexcept {
  switch (type) {
    case data_type::int8:
    case data_type::uint8:
    case data_type::float8_e4m3:
    case data_type::float8_e5m2: return 1;
    case data_type::float16:
    case data_type::bfloat16: return 2;
    case data_type::int32:
    case data_type::uint32:
    case data_type::float32: return 4;
    default: return 8;
  }
}

void combine(std::span<const std::byte* const> sources, std::span<const double> factors,
             std::byte* to, std::size_t count, data_type type, reduction how) {
  switch (type) {
    case data_type::int8:
      return combine_as<std::int8_t, std::int8_t>(sources, factors, to, count, how);
    case data_type::uint8:
      return combine_as<std::uint8_t, std::uint8_t>(sources, factors, to, count, how);
    case data_type::int32:
      return combine_as<std::int32_t, std::int32_t>(sources, factors, to, count, how);
    case data_type::uint32:
      return combine_as<std::uint32_t, std::uint32_t>(sources, factors, to, count, how);
    case data_type::int64:
      return combine_as<std::int64_t, std::int64_t>(sources, factors, to, count, how);
    case data_type::uint64:
      return combine_as<std::uint64_t, std::uint64_t>(sources, factors, to, count, how);
    case data_type::float16: return combine_as<c10::Half, float>(sources, factors, to, count, how);
    case data_type::float32: return combine_as<float, float>(sources, factors, to, count, how);
    case data_type::float64: return combine_as<double, double>(sources, factors, to, count, how);
    case data_type::bfloat16:
      return combine_as<c10::BFloat16, float>(sources, factors, to, count, how);
    case data_type::float8_e4m3:
      return combine_as<c10::Float8_e4m3fn, float>(sources, factors, to, count, how);
    case data_type::float8_e5m2:
      return combine_as<c10::Float8_e5m2, float>(sources, factors, to, count, how);
  }
}

}  // namespace troupe::test::nccl_double
