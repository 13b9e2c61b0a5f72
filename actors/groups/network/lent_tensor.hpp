#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <span>
#include <utility>

#include "troupe/actors/groups/network/packet.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::groups::network {

/// A tensor of which pieces are sent without a copy. It has a tensor object of its own on the same
/// memory, and each piece refers to that: so it knows whether any is still in the network's hands.
class lent_tensor {
public:
  lent_tensor() = default;
  explicit lent_tensor(const at::Tensor& owner)
      : handle_(at::detail::make_tensor<c10::TensorImpl>(c10::Storage(owner.storage()),
                                                         c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                         owner.dtype())),
        whole_(owner.nbytes() == owner.storage().nbytes()) {}

  packet piece(std::span<const std::byte> bytes) const { return packet::lent(bytes, handle_); }

  bool in_use() const noexcept { return handle_.defined() && handle_.use_count() > 1; }

  /// From now on whoever writes to the tensor writes to a copy, while any piece is in use. False:
  /// the memory cannot be shared so, or others may write to other parts of it meanwhile, which a
  /// copy would lose.
  bool freeze() {
    if (!whole_) return false;
    const auto bytes = handle_.storage().data();
    auto frozen = copy_on_write::freeze(*handle_.storage().unsafeGetStorageImpl());
    if (!frozen || frozen->data() != bytes) return false;
    handle_.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(std::move(frozen)));
    return true;
  }

private:
  at::Tensor handle_;
  bool whole_ = false;
};

}  // namespace troupe::groups::network
