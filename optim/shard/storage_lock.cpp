#include "troupe/optim/shard/storage_lock.hpp"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <shared_mutex>

#include "troupe/optim/shard/shared_memory.hpp"

namespace troupe::detail {

namespace {

std::array<std::shared_mutex, 1024>& locks() {
  static std::array<std::shared_mutex, 1024> all;
  return all;
}

// Storages that threads have made in the same way are at the same places of their arenas, so that
// all bits of an address have to count (Knuth's multiplicative hashing).
std::size_t place_of(const c10::Storage& storage) {
  const auto address = std::uint64_t(std::uintptr_t(storage.unsafeGetStorageImpl()));
  return std::size_t((address >> 4) * 0x9e3779b97f4a7c15 >> 54) % locks().size();
}

}  // namespace

memory_turn::memory_turn(const std::vector<at::Tensor>& whose, how which) : which_(which) {
  for (const auto& one : whose) {
    if (!one.defined() || !one.has_storage()) continue;
    storages_.push_back(one.storage());
    places_.push_back(place_of(storages_.back()));
  }
  std::sort(places_.begin(), places_.end());
  places_.erase(std::unique(places_.begin(), places_.end()), places_.end());
  take();
}

memory_turn::~memory_turn() {
  if (mine_) give_up();
}

void memory_turn::give_up() {
  mine_ = false;
  unlock(which_);
}

void memory_turn::take() {
  lock(which_);
  if (which_ == how::alone) leave_memory_to_aliases();
  while (which_ == how::side_by_side && copy_lazy_storages(true)) {
    unlock(which_);
    lock(how::alone);
    leave_memory_to_aliases();
    copy_lazy_storages(false);
    unlock(how::alone);
    lock(which_);
  }
  mine_ = true;
}

void memory_turn::lock(how which) {
  for (const auto i : places_) {
    if (which == how::side_by_side)
      locks()[i].lock_shared();
    else
      locks()[i].lock();
  }
}

void memory_turn::unlock(how which) {
  for (const auto i : places_) {
    if (which == how::side_by_side)
      locks()[i].unlock_shared();
    else
      locks()[i].unlock();
  }
}

void memory_turn::leave_memory_to_aliases() const {
  for (const auto& one : storages_) detail::leave_memory_to_aliases(one);
}

bool memory_turn::copy_lazy_storages(bool only_look) const {
  bool any = false;
  for (const auto& one : storages_) {
    any |= has_aliases(one);
    if (!c10::impl::cow::is_cow_data_ptr(one.data_ptr())) continue;
    any = true;
    if (!only_look) (void)one.unsafeGetStorageImpl()->mutable_data();
  }
  return any;
}

}  // namespace troupe::detail
