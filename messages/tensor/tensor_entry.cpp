#include <ATen/core/QuantizerBase.h>

#include <string>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/tensor_entry_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"

namespace troupe::detail {

namespace {

void build_quantizer(const table_entry& entry, schema::TensorQuantizer::Builder out) {
  const auto& t = entry.tensor;
  if (entry.part_count == 0) {
    auto q = out.initPerTensor();
    q.setScale(per_tensor(t).scale());
    q.setZeroPoint(per_tensor(t).zero_point());
    return;
  }
  auto q = out.initPerChannel();
  q.setScales(entry.parts[0]);
  q.setZeroPoints(entry.parts[1]);
  q.setAxis(static_cast<std::uint8_t>(per_channel(t).axis()));
  q.setFloatParameters(t.qscheme() == c10::kPerChannelAffineFloatQParams);
}

}  // namespace

schema::TensorType type_of(const at::Tensor& t) {
  return static_cast<schema::TensorType>(t.scalar_type());
}

schema::TensorLayout layout_of(const at::Tensor& t) {
  switch (t.layout()) {
    case c10::kStrided: return schema::TensorLayout::STRIDED;
    case c10::kSparse: return schema::TensorLayout::SPARSE_COO;
    case c10::kSparseCsr: return schema::TensorLayout::SPARSE_CSR;
    case c10::kSparseCsc: return schema::TensorLayout::SPARSE_CSC;
    case c10::kSparseBsr: return schema::TensorLayout::SPARSE_BSR;
    case c10::kSparseBsc: return schema::TensorLayout::SPARSE_BSC;
    default: refuse_tensor(t, "its layout cannot be sent; send a dense copy");
  }
}

const at::PerTensorAffineQuantizer& per_tensor(const at::Tensor& t) {
  return static_cast<const at::PerTensorAffineQuantizer&>(*t.quantizer());
}

const at::PerChannelAffineQuantizer& per_channel(const at::Tensor& t) {
  return static_cast<const at::PerChannelAffineQuantizer&>(*t.quantizer());
}

void write_entry(const table_entry& entry, schema::TensorEntry::Builder out) {
  const auto& t = entry.tensor;
  if (!t.defined()) return;
  const auto layout = layout_of(t);
  out.setLayout(layout);
  out.setType(type_of(t));
  out.setRequiresGrad(!entry.part && t.requires_grad());
  const auto sizes = t.sizes();
  if (!sizes.empty()) {
    auto list = out.initSizes(static_cast<unsigned>(sizes.size()));
    for (unsigned i = 0; i < sizes.size(); ++i) list.set(i, sizes[i]);
  }
  if (layout != schema::TensorLayout::STRIDED) {
    if (layout == schema::TensorLayout::SPARSE_COO) out.setCoalesced(t.is_coalesced());
    auto parts = out.initParts(entry.part_count);
    for (unsigned i = 0; i < entry.part_count; ++i) parts.set(i, entry.parts[i]);
    return;
  }
  out.setConjugate(t.is_conj());
  out.setNegative(t.is_neg());
  out.setStorage(entry.storage);
  out.setOffset(static_cast<std::uint64_t>(entry.offset));
  const auto write_strides = [&](c10::IntArrayRef strides) {
    if (is_row_major(sizes, strides)) return;
    auto list = out.initStrides(static_cast<unsigned>(strides.size()));
    for (unsigned i = 0; i < strides.size(); ++i) list.set(i, strides[i]);
  };
  if (entry.compacted.defined())
    write_strides(compact_strides(sizes, t.strides()));
  else
    write_strides(t.strides());
  if (t.is_quantized()) build_quantizer(entry, out.initQuantizer());
}

void refuse_tensor(const at::Tensor& t, const char* reason) {
  std::string layout = "unknown";
  try {
    layout = c10::str(t.layout());
  } catch (const c10::Error&) {  // a layout that only a subclass knows
  }
  throw encode_error("A tensor of dtype " + std::string(c10::toString(t.scalar_type())) +
                     ", device " + t.device().str() + ", layout " + layout +
                     " cannot be sent: " + reason + ".");
}

}  // namespace troupe::detail
