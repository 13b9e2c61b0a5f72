#include "troupe/actors/groups/backend/operation.hpp"

#include <ATen/core/Tensor.h>

namespace troupe::groups {

const char* to_string(operation_kind kind) noexcept {
  switch (kind) {
    case operation_kind::barrier: return "barrier";
    case operation_kind::broadcast: return "broadcast";
    case operation_kind::all_reduce: return "all_reduce";
    case operation_kind::reduce: return "reduce";
    case operation_kind::all_gather: return "all_gather";
    case operation_kind::all_gather_into_tensor: return "all_gather_into_tensor";
    case operation_kind::gather: return "gather";
    case operation_kind::scatter: return "scatter";
    case operation_kind::reduce_scatter: return "reduce_scatter";
    case operation_kind::reduce_scatter_tensor: return "reduce_scatter_tensor";
    case operation_kind::all_to_all: return "all_to_all";
    case operation_kind::all_to_all_single: return "all_to_all_single";
    case operation_kind::send: return "send";
    case operation_kind::recv: return "recv";
    case operation_kind::monitored_barrier: return "monitored_barrier";
  }
  return "unknown operation";
}

const char* to_string(reduce_op reduction) noexcept {
  switch (reduction) {
    case reduce_op::sum: return "sum";
    case reduce_op::product: return "product";
    case reduce_op::min: return "min";
    case reduce_op::max: return "max";
    case reduce_op::band: return "band";
    case reduce_op::bor: return "bor";
    case reduce_op::bxor: return "bxor";
    case reduce_op::avg: return "avg";
    case reduce_op::premul_sum: return "premul_sum";
  }
  return "unknown reduction";
}

c10::Device device_of(const operation& what) {
  return (what.inputs.empty() ? what.outputs : what.inputs)[0].device();
}

}  // namespace troupe::groups
