#pragma once

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/actors/tensors/slice.hpp"

namespace at {
class Tensor;
}

namespace troupe {

/// A part of a tensor, and how often the tensor had been committed when it was read.
template <class Tensor>
struct basic_versioned_tensor {
  Tensor value;
  std::uint64_t version = 0;
};
using versioned_tensor = basic_versioned_tensor<at::Tensor>;

namespace detail {

/// A tensor that was read, its version, and whether it is all of the tensor, of which the reader
/// takes its part: where it is lent nothing else need be touched.
template <class Tensor>
using basic_tensor_part = std::tuple<Tensor, std::uint64_t, bool>;
using tensor_part = basic_tensor_part<at::Tensor>;

/// What a reader gets that asks for these slices. On the owner of the tensor, in the reader's call.
/// Throws invalid_argument.
tensor_part read_part(const at::Tensor& value, const std::vector<slice>& which);

/// The same for the owner itself.
tensor_part read_own_part(const at::Tensor& value, const std::vector<slice>& which);

/// On the reader: the part, in memory of its own if it is not all of the tensor.
basic_versioned_tensor<at::Tensor> taken_from(tensor_part&& answer,
                                              const std::vector<slice>& which);
/// The same into a tensor of the part's sizes. Returns the version.
std::uint64_t take_into(const at::Tensor& to, tensor_part&& answer,
                        const std::vector<slice>& which);

/// On the owner: writes `from`, of the part's sizes, into the part. Throws invalid_argument.
void write_part(at::Tensor& value, const at::Tensor& from, const std::vector<slice>& which);

/// See rref::begin_update.
void begin_update(const at::Tensor& live);
std::uint64_t commit(const at::Tensor& live);

}  // namespace detail

}  // namespace troupe
