#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstring>
#include <span>

#include "troupe/actors/groups/network/packet.hpp"

namespace troupe::groups::network {

/// As an index.
inline std::size_t nth(int i) noexcept { return static_cast<std::size_t>(i); }

inline std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

inline std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

inline void copy_to(std::byte* to, std::span<const std::byte> bytes) {
  if (!bytes.empty() && to != bytes.data()) std::memmove(to, bytes.data(), bytes.size());
}

/// All that of some tensors, one after the other: the memory of one alone, or a copy.
class joined_bytes {
public:
  explicit joined_bytes(std::span<const at::Tensor> tensors) : tensors_(tensors) {
    if (tensors.size() == 1) return;
    std::size_t size = 0;
    for (const auto& one : tensors) size += one.nbytes();
    copy_ = byte_buffer(size);
    auto* to = memory_of(copy_);
    for (const auto& one : tensors) {
      copy_to(to, bytes_of(one));
      to += one.nbytes();
    }
  }

  /// The tensor that has them.
  const at::Tensor& whole() const { return tensors_.size() == 1 ? tensors_[0] : copy_; }
  std::span<const std::byte> bytes() const { return bytes_of(whole()); }
  std::byte* memory() const { return memory_of(whole()); }

  /// What was written to `memory` goes to the tensors.
  void put_back() const {
    if (tensors_.size() == 1) return;
    const auto* from = static_cast<const std::byte*>(copy_.const_data_ptr());
    for (const auto& one : tensors_) {
      copy_to(memory_of(one), {from, one.nbytes()});
      from += one.nbytes();
    }
  }

private:
  std::span<const at::Tensor> tensors_;
  at::Tensor copy_;
};

}  // namespace troupe::groups::network
