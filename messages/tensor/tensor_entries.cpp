#include "troupe/messages/tensor/tensor_entries_internal.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/QuantizerBase.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/tensor/tensor_entry_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"

namespace troupe::detail {

namespace {

// What a tensor may be for its bytes to mean the same elsewhere. Anything else (a subclass, a
// batched or nested tensor, a tracer's) keeps state that the table has no place for.
constexpr c10::DispatchKeySet allowed =
    c10::DispatchKeySet({c10::DispatchKey::Dense, c10::DispatchKey::Sparse,
                         c10::DispatchKey::SparseCsr, c10::DispatchKey::Quantized,
                         c10::DispatchKey::AutogradFunctionality, c10::DispatchKey::ADInplaceOrView,
                         c10::DispatchKey::Conjugate, c10::DispatchKey::Negative,
                         c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA,
                         c10::DispatchKey::AutocastXPU, c10::DispatchKey::AutocastHPU,
                         c10::DispatchKey::AutocastIPU, c10::DispatchKey::AutocastMTIA,
                         c10::DispatchKey::AutocastMPS, c10::DispatchKey::AutocastPrivateUse1,
                         c10::DispatchKey::Named}) |
    c10::DispatchKeySet(c10::BackendComponent::CPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::CUDABit) |
    c10::DispatchKeySet(c10::BackendComponent::HIPBit) |
    c10::DispatchKeySet(c10::BackendComponent::XPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::HPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::IPUBit) |
    c10::DispatchKeySet(c10::BackendComponent::MTIABit) |
    c10::DispatchKeySet(c10::BackendComponent::MPSBit) |
    c10::DispatchKeySet(c10::BackendComponent::PrivateUse1Bit);

bool is_only_user(const at::Tensor& t) {
  return t.defined() && t.use_count() == 1 && t.has_storage() && t.storage().use_count() == 1;
}

void check_quantizer(const at::Tensor& t, double scale, double zero_point) {
  if (!quantizer_fits(type_of(t), scale, zero_point))
    refuse_tensor(t, "its scale or zero point is out of range");
}

}  // namespace

std::uint32_t tensor_entries::add(const at::Tensor& t, bool given) {
  return add_one(t, false, given);
}

std::uint32_t tensor_entries::add_one(const at::Tensor& t, bool part, bool given) {
  table_entry entry;
  entry.given = given && is_only_user(t);  // before the entry refers to it too
  entry.tensor = t;
  entry.part = part;
  bool strided = false;
  if (t.defined()) {
    const auto* impl = t.unsafeGetTensorImpl();
    if ((impl->key_set().raw_repr() & ~allowed.raw_repr()) != 0)
      refuse_tensor(t,
                    "only plain tensors in memory of the host or of an accelerator can; send a "
                    "plain copy");
    if (impl->has_symbolic_sizes_strides()) refuse_tensor(t, "its sizes are symbolic");
    if (impl->has_named_tensor_meta())
      refuse_tensor(t, "its dimensions have names; send rename(nullopt)");
    if (static_cast<std::size_t>(t.dim()) > max_dimensions)
      refuse_tensor(t, "it has more than 64 dimensions");
    if (element_size(type_of(t)) == 0) refuse_tensor(t, "its dtype has no bytes");
    strided = t.layout() == c10::kStrided;
    if (!strided) add_sparse_parts(entry);
    if (t.is_quantized()) add_quantizer_parts(entry);
  }
  if (entries.size() >= max_tensors)
    throw encode_error("A message can hold 262,144 tensors, and this one has more: split it.");
  const auto index = static_cast<std::uint32_t>(entries.size());
  if (strided) add_strided(entry, index);
  entries.push_back(std::move(entry));
  return index;
}

void tensor_entries::add_strided(table_entry& entry, std::uint32_t index) {
  const auto& t = entry.tensor;
  const auto item = static_cast<std::int64_t>(t.itemsize());
  const auto count = element_count(t.sizes(), t.itemsize());
  const auto extent = element_extent(t.sizes(), t.strides(), t.itemsize());
  if (!count || !extent) refuse_tensor(t, "its sizes or strides are out of range");
  if (*count == 0) return;
  const auto* storage = t.storage().unsafeGetStorageImpl();
  byte_range range;
  range.storage = storage;
  range.entry = index;
  range.begin = t.storage_offset() * item;
  range.end = range.begin + *extent * item;
  range.bytes = *extent * item;
  if (*count < *extent) {
    range.bytes = *count * item;
    const auto strides = t.strides();
    if (std::find(strides.begin(), strides.end(), 0) != strides.end())
      range.bytes = *element_count(distinct_sizes(t.sizes(), strides), t.itemsize()) * item;
  }
  if (!storage->data()) refuse_tensor(t, "its storage has no memory");
  if (range.end > static_cast<std::int64_t>(storage->nbytes()))
    refuse_tensor(t, "it reaches beyond its storage, which was resized");
  ranges.push_back(range);
}

void tensor_entries::add_sparse_parts(table_entry& entry) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto& t = entry.tensor;
  switch (layout_of(t)) {
    case schema::TensorLayout::SPARSE_COO:
      entry.parts[entry.part_count++] = add_part(t._indices());
      entry.parts[entry.part_count++] = add_part(t._values());
      return;
    case schema::TensorLayout::SPARSE_CSR:
    case schema::TensorLayout::SPARSE_BSR:
      entry.parts[entry.part_count++] = add_part(t.crow_indices());
      entry.parts[entry.part_count++] = add_part(t.col_indices());
      break;
    default:
      entry.parts[entry.part_count++] = add_part(t.ccol_indices());
      entry.parts[entry.part_count++] = add_part(t.row_indices());
  }
  entry.parts[entry.part_count++] = add_part(t.values());
}

void tensor_entries::add_quantizer_parts(table_entry& entry) {
  const auto& t = entry.tensor;
  switch (t.qscheme()) {
    case c10::kPerTensorAffine:
      check_quantizer(t, per_tensor(t).scale(), static_cast<double>(per_tensor(t).zero_point()));
      return;
    case c10::kPerChannelAffine:
    case c10::kPerChannelAffineFloatQParams:
      if (t.device().is_cpu()) {
        at::AutoDispatchBelowADInplaceOrView no_autograd;
        const auto scales = per_channel(t).scales().to(c10::kDouble).contiguous();
        const auto zeros = per_channel(t).zero_points().to(c10::kDouble).contiguous();
        for (std::int64_t i = 0; i < scales.numel(); ++i)
          check_quantizer(t, scales.const_data_ptr<double>()[i], zeros.const_data_ptr<double>()[i]);
      }
      entry.parts[entry.part_count++] = add_part(per_channel(t).scales());
      entry.parts[entry.part_count++] = add_part(per_channel(t).zero_points());
      return;
    default: refuse_tensor(t, "its quantisation is neither per tensor nor per channel");
  }
}

std::uint32_t tensor_entries::add_part(at::Tensor part) {
  // The receiver walks through parts: it demands that all their elements are really there.
  const auto extent = element_extent(part.sizes(), part.strides(), part.itemsize());
  if (extent && *extent < part.numel()) part = part.contiguous();
  return add_one(part, true, false);
}

void tensor_entries::clear() noexcept {
  entries.clear();
  ranges.clear();
}

}  // namespace troupe::detail
