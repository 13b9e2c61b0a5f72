#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "troupe/messages/tensor/tensor_plan_internal.hpp"

namespace troupe::detail {

/// The tensors of a message, and those that they consist of: a sparse tensor's indices and values,
/// a quantised one's scales and zero points.
class tensor_entries {
public:
  /// Checks that `t` can travel. Returns its number. Throws encode_error.
  std::uint32_t add(const at::Tensor& t, bool given);

  void clear() noexcept;

  entry_list entries;
  range_list ranges;  ///< of the strided ones that have elements

private:
  std::uint32_t add_one(const at::Tensor& t, bool part, bool given);
  std::uint32_t add_part(at::Tensor part);
  void add_strided(table_entry& entry, std::uint32_t index);
  void add_sparse_parts(table_entry& entry);
  void add_quantizer_parts(table_entry& entry);
};

}  // namespace troupe::detail
