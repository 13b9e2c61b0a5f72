#include "troupe/actors/tensors/snapshot.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <array>
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
  return t.defined() && t.layout() == c10::kStrided && t.device().is_cpu() && t.has_storage() &&
         (t.storage().data() || t.storage().nbytes() == 0);
}

// Storages share some locks. Whoever keeps one has it alone; those that write through `writing`
// share it: of two that write at once, one would copy away from the other.
std::shared_mutex& lock_of(const at::Tensor& t) {
  static auto* const locks = new std::array<std::shared_mutex, 64>;  // for static destructors too
  if (!t.defined() || !t.has_storage()) return locks->front();
  const auto place = reinterpret_cast<std::uintptr_t>(t.storage().unsafeGetStorageImpl());
  return (*locks)[(place / 64 * 0x9e3779b97f4a7c15) >> 58];
}

// Null: its memory cannot be shared.
c10::Storage share(const c10::Storage& storage) {
  auto kept = copy_on_write::freeze(*storage.unsafeGetStorageImpl());
  return kept ? c10::Storage(std::move(kept)) : c10::Storage();
}

c10::Storage share_or_copy(const c10::Storage& storage) {
  if (auto kept = share(storage)) return kept;
  const auto size = storage.nbytes();
  auto* const allocator = c10::GetAllocator(c10::kCPU);
  return {c10::Storage::use_byte_size_t(), size, allocator->clone(storage.data(), size), allocator,
          false};
}

void check_fits(const at::Tensor& live, const c10::Storage& memory) {
  if (live.storage().nbytes() > memory.nbytes())
    throw invalid_argument("a tensor was resized between begin_update and commit");
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
    const std::lock_guard alone(lock_of(live));
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

  tensor_version read(const at::Tensor& live, const std::vector<slice>& which) {
    if (!can_be_kept(live)) {
      const auto part = sliced(live, which).detach();
      return {part.clone(), 0, which.empty()};
    }
    const std::lock_guard alone(lock_of(live));
    std::uint64_t version = 0;
    {
      const std::lock_guard lock(mutex_);
      if (const auto* const one = find(live)) {
        version = one->version;
        if (one->before) {
          check_fits(live, c10::Storage(one->before));
          // A storage of its own: who writes to what was read must not write to what others read.
          return {tensor_in(share_or_copy(c10::Storage(one->before)), live), version, true};
        }
      }
    }
    if (const auto kept = share(live.storage())) return {tensor_in(kept, live), version, true};
    return {copy_of_slices(live, which), version, which.empty()};
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
  return can_be_kept(of) ? share_or_copy(of.storage()) : c10::Storage();
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

tensor_version read_version(const at::Tensor& live, const std::vector<slice>& which) {
  return updates().read(live, which);
}

writing::writing(const at::Tensor& to) : lock_(lock_of(to)) {}

}  // namespace troupe::detail
