#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/DimVector.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "troupe/messages/schema/tensor.capnp.h"

// Arithmetic on tensors' shapes, shared by the writer and the reader. Nothing here trusts its
// arguments: what does not fit in 63 bits is reported, not wrapped.
namespace troupe::detail {

inline constexpr std::size_t max_dimensions = 64;

/// A message has at most so many tensors, and so many storages.
inline constexpr std::size_t max_tensors = std::size_t{1} << 18;

/// Bytes of all storages that lie in the envelope itself.
inline constexpr std::uint64_t max_inline_bytes = std::uint64_t{1} << 20;

/// Whether a message whose storages with gaps arrive as `packed` bytes may make the receiver
/// allocate `expanded` bytes for them: otherwise few bytes could demand much memory.
constexpr bool expansion_allowed(std::uint64_t expanded, std::uint64_t packed) noexcept {
  return expanded <= (std::uint64_t{64} << 20) + 4 * packed;
}

/// Bytes of one element; 0 for a type that does not travel.
std::size_t element_size(schema::TensorType type) noexcept;

/// Number of elements; empty if a size is negative or the bytes of a tensor of this shape, with
/// sizes of 0 taken as 1, do not fit in 63 bits.
std::optional<std::int64_t> element_count(c10::IntArrayRef sizes, std::size_t item) noexcept;

/// Elements from the first to the last one in memory, both included; 0 for an empty tensor. Empty
/// if a stride is negative or the result in bytes does not fit in 63 bits.
std::optional<std::int64_t> element_extent(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                           std::size_t item) noexcept;

/// The strides of a row-major tensor without gaps. Pre: `element_count` is not empty.
c10::DimVector row_major_strides(c10::IntArrayRef sizes);

bool is_row_major(c10::IntArrayRef sizes, c10::IntArrayRef strides) noexcept;

/// Strides without gaps that keep the order of the dimensions; expanded dimensions stay so.
c10::DimVector compact_strides(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// `sizes` with the expanded dimensions (stride 0) cut to 1.
c10::DimVector distinct_sizes(c10::IntArrayRef sizes, c10::IntArrayRef strides);

/// Whether a quantised type may have this scale and zero point.
bool quantizer_fits(schema::TensorType type, double scale, double zero_point) noexcept;

}  // namespace troupe::detail
