#include "troupe/actors/groups/shared/quarantine.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>

namespace troupe::groups {

quarantine::~quarantine() {
  if (release()) return;
  for (auto& one : held_) one.release_context();
}

void quarantine::add(std::span<const at::Tensor> written) {
  std::vector<c10::StorageImpl*> done;
  for (const auto& tensor : written) {
    auto* storage = tensor.storage().unsafeGetStorageImpl();
    if (std::ranges::find(done, storage) != done.end() || storage->nbytes() == 0) continue;
    done.push_back(storage);
    auto* allocator = storage->allocator() ? storage->allocator() : c10::GetCPUAllocator();
    auto fresh = allocator->allocate(storage->nbytes());
    std::memcpy(fresh.get(), storage->data(), storage->nbytes());
    held_.push_back(storage->set_data_ptr(std::move(fresh)));
  }
}

bool quarantine::release() {
  if (held_.empty()) return true;
  if (!is_over_()) return false;
  held_.clear();
  return true;
}

}  // namespace troupe::groups
