#include "troupe/optim/shard/shared_memory.hpp"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/COW.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace troupe::detail {

namespace {

struct shared_memory {
  at::DataPtr data;
  std::atomic<std::size_t> users{1};
};

// Release: what this user has read happens before a writer finds itself alone (acquire in
// `has_aliases`) and writes. Acquire: the last user deletes after all others have read.
void leave(void* of) {
  auto* const memory = static_cast<shared_memory*>(of);
  if (memory->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete memory;
}

shared_memory* memory_of(const c10::Storage& storage) noexcept {
  const auto& data = storage.data_ptr();
  return data.get_deleter() == &leave ? static_cast<shared_memory*>(data.get_context()) : nullptr;
}

shared_memory& share(const c10::Storage& storage) {
  if (auto* const shared = memory_of(storage)) return *shared;
  auto made = std::make_unique<shared_memory>();
  auto& impl = *storage.unsafeGetStorageImpl();
  const auto& now = storage.data_ptr();
  at::DataPtr same(now.get(), made.get(), &leave, now.device());
  auto& out = *made.release();  // the storage is its first user
  out.data = impl.set_data_ptr(std::move(same));
  return out;
}

}  // namespace

at::Tensor alias_of_memory(const at::Tensor& parameter) {
  const auto& storage = parameter.storage();
  auto& impl = *storage.unsafeGetStorageImpl();
  if (!memory_of(storage) && !c10::impl::cow::has_simple_data_ptr(impl)) return parameter.clone();
  auto& shared = share(storage);
  // Relaxed: the storage is a user meanwhile, and the caller excludes writers.
  shared.users.fetch_add(1, std::memory_order_relaxed);
  at::DataPtr same(shared.data.get(), &shared, &leave, shared.data.device());
  auto alias =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), impl.nbytes(),
                                            std::move(same), impl.allocator(), /*resizable=*/false);
  auto out = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(std::move(alias)),
                                                      parameter.key_set(), parameter.dtype());
  out.unsafeGetTensorImpl()->set_storage_offset(parameter.storage_offset());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(parameter.sizes(), parameter.strides());
  return out;
}

bool has_aliases(const c10::Storage& of) noexcept {
  const auto* const shared = memory_of(of);
  // Pairs with the release in `leave`: a caller that finds itself alone writes after all that the
  // aliases have read.
  return shared && shared->users.load(std::memory_order_acquire) > 1;
}

void leave_memory_to_aliases(const c10::Storage& of) {
  if (!has_aliases(of)) return;
  const at::NoGradGuard as_bytes;
  auto& impl = *of.unsafeGetStorageImpl();
  const auto& old = of.data_ptr();
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(old.device());
  const auto copy =
      at::from_blob(old.get(), {static_cast<std::int64_t>(impl.nbytes())}, bytes).clone();
  auto own =
      copy.storage().unsafeGetStorageImpl()->set_data_ptr(at::DataPtr(nullptr, old.device()));
  impl.set_data_ptr(std::move(own));
}

}  // namespace troupe::detail
