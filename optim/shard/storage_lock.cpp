#include "troupe/optim/shard/storage_lock.hpp"

#include <c10/core/impl/COW.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <shared_mutex>

#include "troupe/optim/shard/shared_memory.hpp"

namespace troupe::detail {

namespace {

#ifdef TROUPE_SANITIZE_thread
constexpr std::size_t stripes = 32;  // ThreadSanitizer gives up a thread that holds 64 locks
#else
constexpr std::size_t stripes = 1024;
#endif

std::array<std::shared_mutex, stripes>& mutexes() {
  static std::array<std::shared_mutex, stripes> all;
  return all;
}

// Threads that allocate in the same way get storages at the same offsets of their arenas: so every
// bit of the address has to count (Knuth's multiplicative hashing, "The Art of Computer
// Programming", vol. 3, section 6.4).
std::size_t stripe_of(const c10::Storage& storage) {
  const auto address = std::uint64_t(std::uintptr_t(storage.unsafeGetStorageImpl()));
  return std::size_t((address >> 4) * 0x9e3779b97f4a7c15 >> 54) % mutexes().size();
}

}  // namespace

// Both delegate to a constructor that has ended when `acquire` runs: so the destructor unlocks what
// is held when that throws.
storage_lock::storage_lock(const std::vector<at::Tensor>& tensors, mode how) : storage_lock(how) {
  for (const auto& one : tensors) add(one);
  acquire();
}

storage_lock::storage_lock(const std::vector<at::Tensor>& parameters,
                           const std::vector<at::Tensor>& gradients, mode how)
    : storage_lock(how) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (gradients[i].defined()) add(parameters[i]);
  acquire();
}

storage_lock::~storage_lock() { unlock(); }

void storage_lock::add(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  storages_.push_back(tensor.storage());
  stripes_.push_back(stripe_of(storages_.back()));
}

void storage_lock::acquire() {
  std::sort(stripes_.begin(), stripes_.end());
  stripes_.erase(std::unique(stripes_.begin(), stripes_.end()), stripes_.end());
  switch (mode_) {
    case mode::exclude_writers: lock(holding::exclusive); break;
    case mode::write:
      lock(holding::exclusive);
      make_writable();
      break;
    case mode::write_concurrently:
      // A shared lock cannot be upgraded: between the two, somebody may make aliases again.
      for (lock(holding::shared); needs_copies(); lock(holding::shared)) {
        unlock();
        lock(holding::exclusive);
        make_writable();
        unlock();
      }
  }
}

void storage_lock::lock(holding how) {
  for (const auto i : stripes_) {
    if (how == holding::shared)
      mutexes()[i].lock_shared();
    else
      mutexes()[i].lock();
  }
  holding_ = how;
}

void storage_lock::unlock() noexcept {
  if (holding_ == holding::nothing) return;
  for (const auto i : stripes_) {
    if (holding_ == holding::shared)
      mutexes()[i].unlock_shared();
    else
      mutexes()[i].unlock();
  }
  holding_ = holding::nothing;
}

bool storage_lock::needs_copies() const {
  return std::any_of(storages_.begin(), storages_.end(), [](const c10::Storage& one) {
    return has_aliases(one) || c10::impl::cow::is_cow_data_ptr(one.data_ptr());
  });
}

void storage_lock::make_writable() const {
  for (const auto& one : storages_) {
    leave_memory_to_aliases(one);
    // libtorch copies its lazy clones itself when one writer asks for the data, but not for several
    // at once.
    if (mode_ == mode::write_concurrently && c10::impl::cow::is_cow_data_ptr(one.data_ptr()))
      (void)one.unsafeGetStorageImpl()->mutable_data();
  }
}

}  // namespace troupe::detail
