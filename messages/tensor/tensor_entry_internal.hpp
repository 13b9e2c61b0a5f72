#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/quantized/Quantizer.h>

#include "troupe/messages/schema/tensor.capnp.h"
#include "troupe/messages/tensor/tensor_plan_internal.hpp"

// One tensor as the table describes it.
namespace troupe::detail {

schema::TensorType type_of(const at::Tensor& t);

/// Throws encode_error for a layout that does not travel.
schema::TensorLayout layout_of(const at::Tensor& t);

/// Pre: the tensor is quantised in this way.
const at::PerTensorAffineQuantizer& per_tensor(const at::Tensor& t);
const at::PerChannelAffineQuantizer& per_channel(const at::Tensor& t);

/// Describes a planned tensor.
void write_entry(const table_entry& entry, schema::TensorEntry::Builder out);

/// Throws encode_error about a tensor: its dtype, device and layout, and `reason`.
[[noreturn]] void refuse_tensor(const at::Tensor& tensor, const char* reason);

}  // namespace troupe::detail
