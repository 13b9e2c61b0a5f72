#pragma once

#include <c10/core/Allocator.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace c10 {
struct StorageImpl;
struct Storage;
}  // namespace c10

namespace troupe::copy_on_write {

/// Tensors that share memory until one of them is written to: libtorch's copy-on-write storages,
/// made safe for threads.
///
/// libtorch 2.11 counts references before it locks (COWDeleter.cpp: two that drop at once may lock
/// a mutex that has been freed) and lets two writers of one storage copy it at the same time. The
/// two functions, `materialize_cow_storage` and `COWDeleterContext::decrement_refcount`, are
/// defined again in copy_on_write.cpp; the dynamic linker prefers a program's own.

/// Whether libtorch uses our two functions in this process. Found out once, by a copy of a few
/// bytes. Where it does not, `freeze` freezes nothing, and nothing may be made `read_only`.
/// Thread-safe.
bool is_safe();

/// Makes the bytes of `storage` last for as long as the result exists, while `storage` stays an
/// ordinary one: its next writer writes to a copy if the result exists then, and to this memory
/// itself otherwise. Copies nothing. Null if the storage's memory is of a kind that cannot be
/// shared: neither from libtorch's allocators nor `owned`, such as that of at::from_blob. Several
/// threads may freeze and read one storage at once; to write at the same time is a race, as always.
c10::intrusive_ptr<c10::StorageImpl> freeze(c10::StorageImpl& storage);

/// Memory that `owner` keeps and that must not be written: the first write to a storage made of it
/// copies `size` bytes, and drops the owner.
c10::DataPtr read_only(std::shared_ptr<std::byte> owner);

/// Memory that `owner` keeps, for a storage that may be written like any other. What came from
/// `kept` or `take` goes into the storage without a layer around it, if `owner` is its only owner.
c10::DataPtr owned(std::shared_ptr<std::byte> owner);

/// `memory`, which ends with the last copy of the result.
std::shared_ptr<std::byte> kept(c10::DataPtr memory);

/// Takes the memory out of `storage`, which has none then. For a storage that nobody else refers
/// to, and nobody uses any more. Null, and nothing has changed: others see the memory (it is
/// frozen, or `read_only`), or it is neither from libtorch's allocators nor `owned`.
std::shared_ptr<std::byte> take(c10::StorageImpl& storage);

/// `look` is called by whoever writes to memory that others share, before it copies: what they have
/// given back since, it can let go, and then nothing need be copied. One for the process; holds no
/// lock that a writer may have. Null: none.
void look_before_copies(void (*look)()) noexcept;

struct counters {
  std::uint64_t copies = 0;  ///< writes that had to copy, in this process, since its start
  std::uint64_t bytes = 0;   ///< that they copied
};
counters count() noexcept;

/// What had to copy: the operator that was called, as the namespace at::_ops calls it
/// ("add__Tensor"), or "a pointer" where a program took one that may be written through.
struct writer {
  std::string name;
  std::uint64_t copies = 0;
  std::uint64_t bytes = 0;
};
/// Those that copied most bytes first. The first 256 copies are looked at one by one; after them a
/// thread looks once in 4 MiB that it copies, for all since its last look. Looks up the symbols of
/// what is new, some milliseconds each. Thread-safe.
std::vector<writer> writers();

}  // namespace troupe::copy_on_write
