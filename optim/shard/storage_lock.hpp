#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::detail {

/// Locks the memory of some tensors for a step, or for a snapshot of them.
///
/// Memory belongs to the process, not to a node, and shards of two optimizers may have parameters
/// that share it. So this is a striped lock of the process: a fixed number of mutexes, of which the
/// address of the storage selects one. Two locks over different memory rarely collide. The mutexes
/// are locked in the order of their index, so that two locks never wait for one another.
///
/// One thread at a time.
class storage_lock {
public:
  enum class mode {
    write,               ///< exclusive, to write
    write_concurrently,  ///< shared with others of this mode, to write as they do
    exclude_writers,     ///< exclusive, to read or to make aliases; copies nothing
  };

  /// Blocks until the lock is held. Ignores undefined tensors and those without a storage.
  ///
  /// Under a lock to write, no memory has aliases (shared_memory.hpp): the lock has made a copy
  /// where there were some. Under `write_concurrently`, moreover, no storage is of a kind that
  /// libtorch copies when it is written. Throws what a copy throws, and then holds nothing.
  storage_lock(const std::vector<at::Tensor>& tensors, mode how);

  /// The same for the parameters that have a gradient, in `gradients` at the same index.
  storage_lock(const std::vector<at::Tensor>& parameters, const std::vector<at::Tensor>& gradients,
               mode how);

  ~storage_lock();
  storage_lock(const storage_lock&) = delete;
  storage_lock& operator=(const storage_lock&) = delete;

private:
  enum class holding { nothing, shared, exclusive };

  explicit storage_lock(mode how) : mode_(how) {}
  void add(const at::Tensor& tensor);
  void acquire();
  void lock(holding how);
  void unlock() noexcept;
  void make_writable() const;
  bool needs_copies() const;

  std::vector<c10::Storage> storages_;
  std::vector<std::size_t> stripes_;  // indexes of mutexes, sorted, without repetition
  const mode mode_;
  holding holding_ = holding::nothing;
};

}  // namespace troupe::detail
