#include "troupe/actors/groups/shared/quarantine.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::groups {

namespace {

// The memory of one operation that has failed.
struct held_memory {
  std::function<bool()> is_over;
  std::vector<c10::DataPtr> held;
};

struct held_by_process {
  std::mutex mutex;
  std::vector<held_memory> all;
};

// Never destroyed: others may write when this process ends.
held_by_process& all_held() {
  static auto* const all = new held_by_process;
  return *all;
}

// Returns what the storage had, or null if there is no memory.
c10::DataPtr swap_memory(c10::StorageImpl& storage) noexcept {
  try {
    auto* allocator = storage.allocator() ? storage.allocator() : c10::GetCPUAllocator();
    auto fresh = allocator->allocate(storage.nbytes());
    std::memcpy(fresh.get(), storage.data(), storage.nbytes());
    return storage.set_data_ptr(std::move(fresh));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace

void quarantine(std::span<const at::Tensor> written, std::function<bool()> is_over) noexcept {
  release_quarantined();
  held_memory mine;
  mine.is_over = std::move(is_over);
  for (std::size_t i = 0; i < written.size(); ++i) {
    auto* const storage = written[i].storage().unsafeGetStorageImpl();
    const auto shares = [&](const at::Tensor& other) {
      return other.storage().unsafeGetStorageImpl() == storage;
    };
    if (storage->nbytes() == 0 || std::ranges::any_of(written.first(i), shares)) continue;
    if (auto old = swap_memory(*storage))
      mine.held.push_back(std::move(old));
    else
      storage->_mutable_data_ptr_no_checks().release_context();
  }
  if (mine.held.empty()) return;
  auto& process = all_held();
  const std::lock_guard lock(process.mutex);
  process.all.push_back(std::move(mine));
}

void hold_memory(c10::DataPtr memory, std::function<bool()> is_over) noexcept {
  if (!memory) return;
  held_memory mine;
  mine.is_over = std::move(is_over);
  mine.held.push_back(std::move(memory));
  auto& process = all_held();
  const std::lock_guard lock(process.mutex);
  process.all.push_back(std::move(mine));
}

void release_quarantined() noexcept {
  // Their deleters run without the lock.
  std::vector<held_memory> over;
  auto& process = all_held();
  {
    const std::lock_guard lock(process.mutex);
    const auto first =
        std::ranges::partition(process.all, [](const held_memory& one) { return !one.is_over(); });
    over.assign(std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
    process.all.erase(first.begin(), first.end());
  }
}

}  // namespace troupe::groups
