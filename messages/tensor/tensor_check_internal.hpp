#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/schema/tensor.capnp.h"

namespace troupe::detail {

/// Throws decode_error: "Tensor 3 of a message cannot be read: its `field` `problem`."
[[noreturn]] void bad_tensor(std::size_t index, const char* field, const std::string& problem);

/// Runs `make`; what libtorch's own checks throw becomes a decode_error about tensor `index`.
template <class F>
decltype(auto) checked(std::size_t index, F&& make) {
  try {
    return std::forward<F>(make)();
  } catch (const c10::Error& e) {
    throw decode_error("Tensor " + std::to_string(index) +
                       " of a message cannot be read: " + e.what_without_backtrace());
  }
}

/// Checks that the parts make a sparse tensor of `sizes`; throws decode_error about tensor `index`.
/// Every element of a part lies in memory of its own.
void check_coo(std::size_t index, const at::Tensor& indices, const at::Tensor& values,
               c10::IntArrayRef sizes, bool coalesced);
void check_compressed(std::size_t index, const at::Tensor& compressed, const at::Tensor& plain,
                      const at::Tensor& values, c10::IntArrayRef sizes, c10::Layout layout);

/// Checks the parameters of a tensor quantised per channel; throws decode_error.
void check_channels(std::size_t index, schema::TensorType type, c10::IntArrayRef sizes,
                    const at::Tensor& scales, const at::Tensor& zero_points, std::size_t axis,
                    bool float_parameters);

}  // namespace troupe::detail
