#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe::detail {

/// The right to write the memory of some tensors: alone, or beside others who have it side by side.
/// Who takes it alone waits for all others; two over different memory hardly ever meet.
///
/// Memory belongs to the process, not to a node, and two shards of different optimizers may have
/// parameters that share it. So the locks are the process's: a fixed number of them, among which
/// the address of the storage chooses. They hold nothing.
class memory_turn {
public:
  enum class how {
    alone,         ///< to write
    side_by_side,  ///< to write beside others
    to_share,      ///< alone, to give out aliases of the memory
  };

  /// Waits. Undefined tensors, and those without a storage, are left out. Who is to write finds no
  /// memory that has aliases (shared_memory.hpp): it has been copied before; and beside others no
  /// storage is one that libtorch copies when it is written.
  memory_turn(const std::vector<at::Tensor>& whose, how which);
  ~memory_turn();
  memory_turn(const memory_turn&) = delete;
  memory_turn& operator=(const memory_turn&) = delete;

  /// Lets others in, and waits for the turn again. Pre: has it, and has it not.
  void give_up();
  void take();

private:
  void lock(how which);
  void unlock(how which);
  bool copy_lazy_storages(bool only_look) const;
  void leave_memory_to_aliases() const;

  std::vector<c10::Storage> storages_;
  std::vector<std::size_t> places_;  // sorted, each once
  const how which_;
  bool mine_ = false;
};

}  // namespace troupe::detail
