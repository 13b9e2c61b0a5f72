#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::groups {

/// One digit of an index: it counts from 0 to count - 1, and its steps are `stride` places apart.
struct mesh_digit {
  std::int64_t count = 1;
  std::int64_t stride = 1;

  friend bool operator==(const mesh_digit&, const mesh_digit&) = default;
};

/// One dimension of a mesh: how an index of it moves through the list of the mesh's ranks. It has
/// one digit, or several where it was flattened from dimensions that do not lie together; the first
/// one moves slowest. (Layouts of CuTe, as PyTorch's DeviceMesh uses them, of two levels.)
///
/// Strides are products of the counts of a row-major list, so an index can be read back from a
/// place.
class mesh_axis {
public:
  /// An axis of one index.
  mesh_axis() = default;
  explicit mesh_axis(std::span<const mesh_digit> digits);

  /// The axes of a row-major list of this shape. Throws invalid_argument for sizes below 1, and for
  /// more than 2^31 places.
  static std::vector<mesh_axis> row_major(std::span<const std::int64_t> shape);

  /// One axis that counts through all of these, the last one fastest.
  static mesh_axis joined(std::span<const mesh_axis> axes);

  /// Axes of these sizes that count through this one together, the last one fastest. Throws
  /// invalid_argument if their product is another, or a size does not divide the digits.
  std::vector<mesh_axis> split(std::span<const std::int64_t> sizes) const;

  std::int64_t size() const noexcept;
  /// How far index `index`, below `size`, lies from index 0.
  std::int64_t offset(std::int64_t index) const noexcept;
  /// The index on this axis of a place in the list.
  std::int64_t index_of(std::int64_t place) const noexcept;

  friend bool operator==(const mesh_axis&, const mesh_axis&) = default;

private:
  std::vector<mesh_digit> digits_;  // none has the count 1, and no two could be one
};

/// The offsets of all indices of some axes, row-major.
std::vector<std::int64_t> mesh_offsets(std::span<const mesh_axis> axes);

}  // namespace troupe::groups
