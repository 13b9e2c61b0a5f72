#include "troupe/messages/memory/copy_on_write.hpp"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/COW.h>
#include <c10/core/impl/COWDeleter.h>

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace {

using c10::impl::cow::COWDeleterContext;
using owned_pointer = std::unique_ptr<void, c10::DeleterFnPtr>;

// Access to what only the context's members see: an explicit instantiation may name private members
// ([temp.spec.general]).
template <owned_pointer COWDeleterContext::*Data,
          std::atomic<std::int64_t> COWDeleterContext::*Count>
struct opened_context {
  friend const owned_pointer& data_of(const COWDeleterContext& context) { return context.*Data; }
  friend std::int64_t references_to(const COWDeleterContext& context) {
    return (context.*Count).load(std::memory_order_acquire);
  }
};
const owned_pointer& data_of(const COWDeleterContext& context);
std::int64_t references_to(const COWDeleterContext& context);
template struct opened_context<&COWDeleterContext::data_, &COWDeleterContext::refcount_>;

// Storages share some locks, which are held for moments: nothing is copied, freed or called under
// one. `copying` are storages that a writer copies just now; other writers of these wait.
struct copying_storage {
  const c10::StorageImpl* which;
  copying_storage* next;
};
struct alignas(64) storage_lock {
  std::mutex mutex;
  std::condition_variable done;
  copying_storage* copying = nullptr;

  bool copies(const c10::StorageImpl& storage) const noexcept {
    for (const auto* one = copying; one; one = one->next)
      if (one->which == &storage) return true;
    return false;
  }
  void remove(const copying_storage& gone) noexcept {
    auto** at = &copying;
    while (*at != &gone) at = &(*at)->next;
    *at = gone.next;
  }
};

storage_lock& lock_of(const c10::StorageImpl& storage) {
  static auto* const locks = new std::array<storage_lock, 64>;  // for static destructors too
  const auto place = reinterpret_cast<std::uintptr_t>(&storage);
  return (*locks)[(place / 64 * 0x9e3779b97f4a7c15) >> 58];
}

constinit std::atomic<std::uint64_t> forced_copies{0};
constinit std::atomic<std::uint64_t> forced_bytes{0};
// How often libtorch has called each of the two.
constinit std::atomic<unsigned> written_by_us{0};
constinit std::atomic<unsigned> dropped_by_us{0};

// Where a copy was made: the addresses of its callers, whose names are looked up when somebody
// asks.
struct call_path {
  static constexpr int most = 20;

  std::array<void*, most> callers{};
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};
struct call_paths {
  std::mutex mutex;
  std::array<call_path, 256> known;
  std::size_t count = 0;  // the last one is of all for which there is no room
};

// Never destroyed: static destructors may write to tensors.
call_paths& paths() noexcept {
  static_assert(std::is_trivially_destructible_v<call_paths>);
  static constinit call_paths all;
  return all;
}

constexpr std::uint64_t looked_at_one_by_one = 256;
constexpr std::uint64_t bytes_between_looks = std::uint64_t{4} << 20;

// Of this thread, since it looked last.
struct copies_not_looked_at {
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};
thread_local constinit copies_not_looked_at left_out;

constinit std::atomic<void (*)()> before_copies{nullptr};

void count_copy(std::uint64_t bytes) noexcept {
  const auto number = forced_copies.fetch_add(1, std::memory_order_relaxed);
  forced_bytes.fetch_add(bytes, std::memory_order_relaxed);
  ++left_out.copies;
  left_out.bytes += bytes;
  if (number >= looked_at_one_by_one && left_out.bytes < bytes_between_looks) return;
  call_path here;
  ::backtrace(here.callers.data(), call_path::most);
  const auto seen = std::exchange(left_out, {});
  auto& all = paths();
  const std::lock_guard lock(all.mutex);
  const auto end = all.known.begin() + static_cast<std::ptrdiff_t>(all.count);
  auto at = std::find_if(all.known.begin(), end,
                         [&](const call_path& one) { return one.callers == here.callers; });
  if (at == end) {
    if (all.count < all.known.size()) {
      if (++all.count < all.known.size()) at->callers = here.callers;
    } else {
      at = std::prev(end);
    }
  }
  at->copies += seen.copies;
  at->bytes += seen.bytes;
}

// "add__Tensor" of the mangled at::_ops::add__Tensor::call; empty: it is another function.
std::string_view operator_in(std::string_view symbol) {
  constexpr std::string_view before = "_ZN2at4_ops";
  if (!symbol.starts_with(before)) return {};
  symbol.remove_prefix(before.size());
  std::size_t length = 0;
  const auto [name, error] = std::from_chars(symbol.data(), symbol.data() + symbol.size(), length);
  if (error != std::errc()) return {};
  symbol.remove_prefix(static_cast<std::size_t>(name - symbol.data()));
  return symbol.substr(0, length);
}

// The operator that the program has called: the outermost.
std::string name_of(const call_path& path) {
  for (std::size_t i = path.callers.size(); i-- > 0;) {
    Dl_info found{};
    if (!path.callers[i] || ::dladdr(path.callers[i], &found) == 0 || !found.dli_sname) continue;
    if (const auto name = operator_in(found.dli_sname); !name.empty()) return std::string(name);
  }
  return path.callers[0] ? "a pointer" : "others";
}

void drop_read_only(void* owner) { delete static_cast<std::shared_ptr<std::byte>*>(owner); }

// Another function, which tells such memory from the one above.
void drop_owned(void* owner) { drop_read_only(owner); }

// Ends it, unless `owned` takes it out.
struct kept_memory {
  c10::DataPtr memory;
  void operator()(std::byte*) noexcept { memory.clear(); }
};

// Whether the only storage that has it may write to it.
bool is_writable(const owned_pointer& held, const void* data) noexcept {
  return held.get_deleter() == &drop_owned ||
         (held.get() == data && held.get_deleter() != &drop_read_only);
}

}  // namespace

namespace c10::impl::cow {

// Locks before it counts. libtorch's own counts first; another thread may then drop the last
// reference, and delete the mutex, before this one has locked it.
std::variant<COWDeleterContext::NotLastReference, COWDeleterContext::LastReference>
COWDeleterContext::decrement_refcount() {
  dropped_by_us.fetch_add(1, std::memory_order_relaxed);
  NotLastReference shared(mutex_);
  // Release: what was read or written through this reference comes before the end of the memory.
  if (refcount_.fetch_sub(1, std::memory_order_acq_rel) > 1) return shared;
  // Nobody else has a reference, so nobody comes any more; those that copy still have the lock.
  shared.unlock();
  std::unique_lock(mutex_).unlock();
  auto data = std::move(data_);
  delete this;
  return data;
}

void materialize_cow_storage(StorageImpl& storage) {
  written_by_us.fetch_add(1, std::memory_order_relaxed);
  // What these let go is let go last, without a lock: it may run anything.
  std::variant<COWDeleterContext::NotLastReference, COWDeleterContext::LastReference> left;
  DataPtr old;
  auto& place = lock_of(storage);
  std::unique_lock lock(place.mutex);
  const auto context_now = [&] {
    place.done.wait(lock, [&] { return !place.copies(storage); });
    return storage.data_ptr().cast_context<COWDeleterContext>(cow_deleter);
  };
  auto* context = context_now();
  const auto look = before_copies.load(std::memory_order_acquire);
  if (look && context && references_to(*context) > 1) {
    lock.unlock();
    look();
    lock.lock();
    context = context_now();
  }
  if (!context) return;  // another writer was first
  void* const data = const_cast<void*>(storage.data_ptr().get());
  const auto& held = data_of(*context);
  // Other threads may look at the pointer: it changes before the mark that says it is shared does
  // (the members' order in UniqueVoidPtr), so that whoever sees no mark sees the new pointer.
  const auto become = [&](DataPtr&& own) {
    old = storage.set_data_ptr_no_materialize_cow(std::move(own));
    old.release_context();  // the reference is dropped by itself
  };
  // The only reference is this storage's, and whoever would add one waits for the lock.
  if (references_to(*context) == 1 && is_writable(held, data)) {
    left = context->decrement_refcount();
    auto& last = std::get<COWDeleterContext::LastReference>(left);
    const auto deleter = last.get_deleter();
    become(DataPtr(data, last.release(), deleter, storage.device()));
    return;
  }
  // Copied without the lock: the storage's reference, which only a writer drops, keeps the memory.
  // If there is no memory for the copy, nothing has changed.
  copying_storage here{&storage, place.copying};
  place.copying = &here;
  lock.unlock();
  std::optional<DataPtr> copy;
  try {
    // Storages of torch::load have no allocator.
    auto* const allocator =
        storage.allocator() ? storage.allocator() : c10::GetAllocator(storage.device_type());
    copy = allocator->clone(data, storage.nbytes());
  } catch (...) {
    lock.lock();
    place.remove(here);
    place.done.notify_all();
    throw;
  }
  lock.lock();
  place.remove(here);
  become(*std::move(copy));
  place.done.notify_all();
  lock.unlock();
  left = context->decrement_refcount();
  count_copy(storage.nbytes());
}

}  // namespace c10::impl::cow

namespace troupe::copy_on_write {

namespace {

// Makes a storage of `owned` memory one that libtorch can share. Under the storage's lock; threads
// that read meanwhile see the same pointer all the time.
void share_owned(c10::StorageImpl& storage) {
  const auto& now = storage.data_ptr();
  auto* const shared = new COWDeleterContext(owned_pointer(now.get_context(), &drop_owned));
  void* const data = const_cast<void*>(now.get());
  auto plain = storage.set_data_ptr({data, shared, &c10::impl::cow::cow_deleter, storage.device()});
  plain.release_context();  // it is held above
}

}  // namespace

bool is_safe() {
  static const bool used = [] {
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    const auto tensor = at::empty({64}, at::kByte);
    const auto writes = written_by_us.load();
    const auto drops = dropped_by_us.load();
    auto shared = c10::impl::cow::lazy_clone_storage(*tensor.storage().unsafeGetStorageImpl());
    if (!shared) return false;
    tensor.fill_(1);  // libtorch_cpu.so calls the one
    if (written_by_us.load() == writes) return false;
    shared.reset();  // libc10.so calls the other, by cow_deleter
    return dropped_by_us.load() >= drops + 2;
  }();
  return used;
}

c10::intrusive_ptr<c10::StorageImpl> freeze(c10::StorageImpl& storage) {
  if (!is_safe()) return {};
  const std::lock_guard lock(lock_of(storage).mutex);
  if (storage.data_ptr().get_deleter() == &drop_owned) share_owned(storage);
  return c10::impl::cow::lazy_clone_storage(storage);
}

c10::DataPtr read_only(std::shared_ptr<std::byte> owner) {
  auto* const bytes = owner.get();
  owned_pointer held(new std::shared_ptr<std::byte>(std::move(owner)), &drop_read_only);
  return {bytes, new COWDeleterContext(std::move(held)), &c10::impl::cow::cow_deleter,
          c10::Device(c10::kCPU)};
}

c10::DataPtr owned(std::shared_ptr<std::byte> owner) {
  auto* const bytes = owner.get();
  auto* const keeper = std::get_deleter<kept_memory>(owner);
  if (keeper && owner.use_count() == 1 && keeper->memory.get() == bytes)
    return std::move(keeper->memory);
  return {bytes, new std::shared_ptr<std::byte>(std::move(owner)), &drop_owned,
          c10::Device(c10::kCPU)};
}

std::shared_ptr<std::byte> kept(c10::DataPtr memory) {
  auto* const bytes = static_cast<std::byte*>(memory.get());
  return {bytes, kept_memory{std::move(memory)}};
}

std::shared_ptr<std::byte> take(c10::StorageImpl& storage) {
  c10::DataPtr memory;
  {
    const std::lock_guard lock(lock_of(storage).mutex);
    const auto& now = storage.data_ptr();
    if (!now.device().is_cpu() || !now.get()) return nullptr;
    if (const auto* shared = now.cast_context<COWDeleterContext>(c10::impl::cow::cow_deleter)) {
      if (references_to(*shared) != 1 || !is_writable(data_of(*shared), now.get())) return nullptr;
    } else if (now.get_deleter() != &drop_owned && now.get_context() != now.get()) {
      return nullptr;
    }
  }
  // Nobody else has the storage, so nobody shares its memory meanwhile.
  if (c10::impl::cow::is_cow_data_ptr(storage.data_ptr()))
    c10::impl::cow::materialize_cow_storage(storage);
  memory = storage.set_data_ptr(c10::DataPtr(nullptr, storage.device()));
  if (memory.get_deleter() == &drop_owned)
    return *static_cast<std::shared_ptr<std::byte>*>(memory.get_context());
  return kept(std::move(memory));
}

void look_before_copies(void (*look)()) noexcept {
  before_copies.store(look, std::memory_order_release);
}

counters count() noexcept { return {forced_copies.load(), forced_bytes.load()}; }

std::vector<writer> writers() {
  static constinit std::mutex looking;
  static auto* const names = new std::vector<std::string>;  // of the paths: none goes, or changes
  const std::lock_guard alone(looking);
  std::vector<call_path> seen;
  {
    auto& all = paths();
    const std::lock_guard lock(all.mutex);
    seen.assign(all.known.begin(), all.known.begin() + static_cast<std::ptrdiff_t>(all.count));
  }
  std::map<std::string, writer> by_name;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (i == names->size()) names->push_back(name_of(seen[i]));
    auto& one = by_name[(*names)[i]];
    one.copies += seen[i].copies;
    one.bytes += seen[i].bytes;
  }
  std::vector<writer> out;
  for (auto& [name, one] : by_name) {
    one.name = name;
    out.push_back(std::move(one));
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &writer::bytes);
  return out;
}

}  // namespace troupe::copy_on_write
