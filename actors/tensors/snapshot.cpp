#include "troupe/actors/tensors/snapshot.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::detail {

namespace {

using storage_pointer = c10::intrusive_ptr<c10::StorageImpl>;

storage_pointer owner_of(const c10::Storage& storage) {
  return storage_pointer::reclaim_copy(storage.unsafeGetStorageImpl());
}

bool can_be_kept(const at::Tensor& t) {
  return t.defined() && t.layout() == c10::kStrided && t.device().is_cpu() && t.has_storage();
}

struct update {
  c10::weak_intrusive_ptr<c10::StorageImpl> of;
  storage_pointer before;  // null: none is under way
  std::uint64_t version = 0;
};

class update_table {
public:
  void begin(const at::Tensor& live) {
    if (!can_be_kept(live))
      throw invalid_argument(
          "only tensors in host memory that are strided can be updated while others read them");
    const std::lock_guard lock(mutex_);
    forget_ended();
    auto& one = updates_.try_emplace(key_of(live), update{weak(live), {}, 0}).first->second;
    if (one.before)
      throw invalid_argument("begin_update: an update of this tensor is under way already");
    one.before = owner_of(keep_storage(live));
  }

  std::uint64_t commit(const at::Tensor& live) {
    storage_pointer before;  // let go without the lock
    const std::lock_guard lock(mutex_);
    auto* const one = find(live);
    if (!one || !one->before)
      throw invalid_argument(
          "commit: no update of this tensor is under way; begin_update begins one");
    before.swap(one->before);
    return ++one->version;
  }

  tensor_version read(const at::Tensor& live) {
    const std::lock_guard lock(mutex_);
    const auto* const one = find(live);
    const auto version = one ? one->version : 0;
    if (one && one->before) return {tensor_in(c10::Storage(one->before), live), version};
    return {snapshot_of(live), version};
  }

private:
  static const c10::StorageImpl* key_of(const at::Tensor& t) {
    return t.storage().unsafeGetStorageImpl();
  }
  static c10::weak_intrusive_ptr<c10::StorageImpl> weak(const at::Tensor& t) {
    return c10::weak_intrusive_ptr<c10::StorageImpl>(owner_of(t.storage()));
  }

  update* find(const at::Tensor& live) {
    if (updates_.empty() || !can_be_kept(live)) return nullptr;
    const auto at = updates_.find(key_of(live));
    // Another storage may have the address of one that has ended.
    if (at == updates_.end() || at->second.of.expired()) return nullptr;
    return &at->second;
  }

  void forget_ended() {
    std::erase_if(updates_, [](const auto& one) { return one.second.of.expired(); });
  }

  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, update> updates_;
};

update_table& updates() {
  static auto* const one = new update_table;  // tensors end in static destructors
  return *one;
}

}  // namespace

c10::Storage keep_storage(const at::Tensor& of) {
  if (!can_be_kept(of)) return {};
  const auto& storage = of.storage();
  if (auto kept = copy_on_write::freeze(*storage.unsafeGetStorageImpl()))
    return c10::Storage(std::move(kept));
  const auto size = storage.nbytes();
  auto* const allocator = c10::GetAllocator(c10::kCPU);
  return c10::Storage(c10::Storage::use_byte_size_t(), size, allocator->clone(storage.data(), size),
                      allocator, false);
}

at::Tensor tensor_in(const c10::Storage& memory, const at::Tensor& like) {
  // Not `detach`: the storage of its result may not be changed.
  auto impl = like.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true);
  impl->set_storage_keep_dtype(memory);
  return at::Tensor(std::move(impl));
}

at::Tensor snapshot_of(const at::Tensor& live) {
  if (!live.defined()) return live;
  if (const auto kept = keep_storage(live)) return tensor_in(kept, live);
  at::AutoDispatchBelowADInplaceOrView no_autograd;
  return live.clone();
}

void begin_update(const at::Tensor& live) { updates().begin(live); }

std::uint64_t commit(const at::Tensor& live) { return updates().commit(live); }

tensor_version read_version(const at::Tensor& live) { return updates().read(live); }

}  // namespace troupe::detail
