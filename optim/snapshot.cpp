#include "optim/snapshot.hpp"

#include <ATen/Functions.h>
#include <c10/core/impl/COW.h>

#include "optim/memory_turn.hpp"

namespace troupe {

namespace {

bool can_be_lazy(const at::Tensor& x) {
  if (!x.has_storage() || x.layout() != c10::kStrided) return false;
  const auto& storage = *x.storage().unsafeGetStorageImpl();
  return c10::impl::cow::is_cow_data_ptr(storage.data_ptr()) ||
         c10::impl::cow::has_simple_data_ptr(storage);
}

}  // namespace

at::Tensor snapshot(const at::Tensor& parameter) {
  if (!parameter.defined()) throw invalid_argument("a snapshot of an undefined tensor");
  const detail::memory_turn turn({parameter}, detail::memory_turn::how::alone);
  return can_be_lazy(parameter) ? at::_lazy_clone(parameter) : parameter.clone();
}

at::Tensor snapshot(const rref<at::Tensor>& parameter) { return snapshot(parameter.local_value()); }

}  // namespace troupe
