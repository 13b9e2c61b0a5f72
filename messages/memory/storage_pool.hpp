#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe {

/// Host memory for tensors that arrive, recycled: fresh pages cost more than the copy into them.
///
/// Blocks are 64-aligned; from 4 MiB on they are 2 MiB-aligned and ask for huge pages. Each block
/// holds at most a quarter more than was asked for (and 2 MiB where it has huge pages). A block
/// that comes from the cache costs one uncontended lock and no other allocation. Thread-safe.
class storage_pool {
public:
  struct counters {
    std::size_t in_use = 0;    ///< bytes of the blocks handed out
    std::size_t cached = 0;    ///< bytes of the blocks kept for the next caller
    std::uint64_t hits = 0;    ///< blocks that came from the cache
    std::uint64_t misses = 0;  ///< blocks that came from the system
  };

  /// Keeps at most `limit` bytes of unused blocks; those unused longest are freed first.
  explicit storage_pool(std::size_t limit = default_limit());

  /// Returns unused blocks to the system. Blocks in use stay valid and are returned to the system
  /// when they are dropped.
  ~storage_pool();

  storage_pool(const storage_pool&) = delete;
  storage_pool& operator=(const storage_pool&) = delete;

  /// Returns at least `size` bytes, not initialised; they come back when the last pointer to them
  /// is dropped, on any thread. Throws std::bad_alloc.
  std::shared_ptr<std::byte> allocate(std::size_t size);

  counters count() const noexcept;

  /// A quarter of the machine's memory, at most 2 GiB.
  static std::size_t default_limit() noexcept;

private:
  struct state;
  struct block;
  template <class T>
  struct control_allocator;

  std::shared_ptr<state> state_;
};

}  // namespace troupe
