#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Scalar.h>

#include <variant>

#include "troupe/actors/operators/value.hpp"

namespace troupe::detail {

/// Errors show this much of an operator's name: no operator has a longer one.
inline constexpr std::size_t longest_shown_name = 200;

/// A device in two bytes: at::Device is not default constructible.
struct device_id {
  std::int8_t type = 0;
  std::int8_t index = -1;
};
constexpr auto troupe_fields(const device_id*) {
  return std::make_tuple(&device_id::type, &device_id::index);
}

/// The content of an op_value that is not none.
struct op_content {
  using variant =
      std::variant<at::Tensor, std::int64_t, double, bool, std::string, std::complex<double>,
                   std::vector<std::int64_t>, std::vector<double>, std::vector<bool>,
                   std::vector<at::Tensor>, std::vector<std::optional<at::Tensor>>, at::ScalarType,
                   at::Layout, at::MemoryFormat, device_id>;
  variant value;
};

/// The content as a T; nullptr: it is of another type.
template <class T>
const T* held(const op_value& x) noexcept {
  return x.none() ? nullptr : std::get_if<T>(&x.content()->value);
}

}  // namespace troupe::detail
