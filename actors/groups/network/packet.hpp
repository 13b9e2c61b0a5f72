#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>
#include <vector>

namespace troupe {

class decoder;
class encoder;

namespace groups::network {

/// Bytes of one rank for another. Up to `small_packet` lie in the message, more in memory of their
/// own, which the network takes as it is.
class packet {
public:
  static constexpr std::size_t small_packet = 2 * 1024;

  packet() = default;
  /// A copy of `bytes`.
  explicit packet(std::span<const std::byte> bytes);
  /// Of memory that nobody writes any more: a contiguous tensor of bytes.
  explicit packet(at::Tensor bytes) : large_(std::move(bytes)) {}
  /// Not a copy: `bytes`, which are of `owner`. They stay as they are until the receiver has said
  /// that it has them.
  static packet lent(std::span<const std::byte> bytes, at::Tensor owner);

  std::span<const std::byte> bytes() const noexcept;
  std::size_t size() const noexcept { return bytes().size(); }

  void write(encoder& out) const;
  /// Throws decode_error.
  static packet read(decoder& in);

private:
  std::vector<std::byte> small_;
  at::Tensor large_;
};

/// A contiguous tensor of so many bytes, not initialised.
at::Tensor byte_buffer(std::size_t size);

}  // namespace groups::network

}  // namespace troupe
