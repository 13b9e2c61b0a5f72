#include "troupe/actors/groups/backend/signature.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

namespace troupe::groups {

namespace {

std::uint64_t elements_of(std::span<const at::Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const auto& one : tensors) sum += static_cast<std::uint64_t>(one.numel());
  return sum;
}

}  // namespace

operation_signature signature_of(const operation& what, int size) {
  operation_signature out;
  out.sequence = what.sequence;
  out.kind = what.kind;
  out.dtype = static_cast<std::int8_t>(what.dtype);
  out.device = static_cast<std::uint8_t>(what.device);
  if (reduces(what.kind)) out.reduction = what.reduction;
  if (has_root(what.kind)) out.root = what.root;
  switch (what.kind) {
    case operation_kind::broadcast:
    case operation_kind::all_reduce:
      out.elements = elements_of(what.outputs);
      out.tensors = static_cast<std::uint32_t>(what.outputs.size());
      break;
    case operation_kind::reduce: out.elements = elements_of(what.inputs); break;
    case operation_kind::all_gather_into_tensor:
    case operation_kind::reduce_scatter_tensor:
      out.elements = elements_of(what.inputs);
      out.tensors = static_cast<std::uint32_t>(what.inputs.size());
      break;
    case operation_kind::reduce_scatter:
      // The parts may differ from one another: all ranks name the same ones.
      out.elements = elements_of(what.inputs);
      out.tensors = static_cast<std::uint32_t>(size);
      break;
    default: break;
  }
  return out;
}

std::string to_string(const operation_signature& what) {
  std::string out = to_string(what.kind);
  if (reduces(what.kind)) out += fmt::format("({})", to_string(what.reduction));
  if (what.tensors > 1) out += fmt::format(" of {} tensors", what.tensors);
  if (what.kind != operation_kind::barrier && what.kind != operation_kind::monitored_barrier) {
    const auto* name = c10::toString(static_cast<c10::ScalarType>(what.dtype));
    if (what.elements > 0)
      out += fmt::format(" of {} elements of {}", what.elements, name);
    else
      out += fmt::format(" of {}", name);
  }
  if (has_root(what.kind)) out += fmt::format(" with root {}", what.root);
  return out + fmt::format(", sequence number {}", what.sequence);
}

}  // namespace troupe::groups
