#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

// Views with gaps: their elements are packed for the way and put back into a storage of the old
// extent at the receiver, so that strides and sharing are as they were.
//
// Packed form: for each piece, its elements in row-major order with expanded dimensions taken
// once; each piece starts at a multiple of its element size.
namespace troupe::detail {

/// A strided view of a storage; the offset is in bytes. Borrows its arrays.
struct piece {
  c10::IntArrayRef sizes;
  c10::IntArrayRef strides;
  std::int64_t offset = 0;
  std::size_t item = 1;  ///< bytes of an element: 1, 2, 4, 8 or 16
};

/// Bytes of the packed form; empty if that does not fit in 63 bits.
std::optional<std::int64_t> packed_size(std::span<const piece> pieces) noexcept;

/// The packed form, uint8, on the device of `from`. Pre: every piece lies within `from`.
at::Tensor pack(const c10::Storage& from, std::span<const piece> pieces);

/// A zeroed storage of `size` bytes with the pieces of `packed` in their places.
/// Pre: the pieces lie within `size`, and `packed` has `packed_size` bytes.
c10::Storage unpack(const c10::Storage& packed, std::span<const piece> pieces, std::int64_t size);

/// The elements of `view`, which lies in `from`, in memory of their own without gaps and in the
/// same order of dimensions: uint8, and with `compact_strides` a copy of the view.
at::Tensor compact(const c10::Storage& from, const piece& view);

}  // namespace troupe::detail
