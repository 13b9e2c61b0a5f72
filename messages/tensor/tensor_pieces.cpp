#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorImpl.h>

#include "troupe/messages/tensor/tensor_layout_internal.hpp"
#include "troupe/messages/tensor/tensor_moves.hpp"
#include "troupe/messages/tensor/tensor_pieces_internal.hpp"

namespace troupe::detail {

namespace {

c10::ScalarType type_of_size(std::size_t item) {
  switch (item) {
    case 1: return c10::kByte;
    case 2: return c10::kShort;
    case 4: return c10::kInt;
    case 8: return c10::kLong;
    default: return c10::kComplexDouble;
  }
}

// A tensor over `storage` that knows nothing of autograd, conjugation or quantisation.
at::Tensor plain_view(const c10::Storage& storage, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                      std::int64_t offset, std::size_t item) {
  auto out =
      at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys_on(storage.device()),
                                               c10::scalarTypeToTypeMeta(type_of_size(item)));
  out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides,
                                                   offset / static_cast<std::int64_t>(item));
  return out;
}

constexpr std::int64_t align_up(std::int64_t offset, std::size_t item) noexcept {
  const auto step = static_cast<std::int64_t>(item);
  return (offset + step - 1) / step * step;
}

at::TensorOptions bytes_on(const c10::Storage& storage) {
  return at::TensorOptions().dtype(c10::kByte).device(storage.device());
}

}  // namespace

std::optional<std::int64_t> packed_size(std::span<const piece> pieces) noexcept {
  std::int64_t total = 0;
  for (const auto& p : pieces) {
    const auto count = element_count(distinct_sizes(p.sizes, p.strides), p.item);
    if (!count || __builtin_add_overflow(align_up(total, p.item),
                                         *count * static_cast<std::int64_t>(p.item), &total))
      return std::nullopt;
    if (total > std::int64_t{1} << 62) return std::nullopt;
  }
  return total;
}

at::Tensor pack(const c10::Storage& from, std::span<const piece> pieces) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto out = at::empty({*packed_size(pieces)}, bytes_on(from));
  std::int64_t at = 0;
  for (const auto& p : pieces) {
    const auto sizes = distinct_sizes(p.sizes, p.strides);
    at = align_up(at, p.item);
    plain_view(out.storage(), sizes, row_major_strides(sizes), at, p.item)
        .copy_(plain_view(from, sizes, p.strides, p.offset, p.item));
    at += *element_count(sizes, p.item) * static_cast<std::int64_t>(p.item);
  }
  return out;
}

c10::Storage unpack(const c10::Storage& packed, std::span<const piece> pieces, std::int64_t size) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  auto out = at::zeros({size}, bytes_on(packed));
  std::int64_t at = 0;
  for (const auto& p : pieces) {
    const auto sizes = distinct_sizes(p.sizes, p.strides);
    at = align_up(at, p.item);
    plain_view(out.storage(), sizes, p.strides, p.offset, p.item)
        .copy_(plain_view(packed, sizes, row_major_strides(sizes), at, p.item));
    at += *element_count(sizes, p.item) * static_cast<std::int64_t>(p.item);
  }
  return out.storage();
}

at::Tensor compact(const c10::Storage& from, const piece& view) {
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  const auto sizes = distinct_sizes(view.sizes, view.strides);
  const auto strides = compact_strides(view.sizes, view.strides);
  auto out = at::empty({*packed_size({&view, 1})}, bytes_on(from));
  plain_view(out.storage(), sizes, strides, 0, view.item)
      .copy_(plain_view(from, sizes, view.strides, view.offset, view.item));
  return out;
}

}  // namespace troupe::detail
