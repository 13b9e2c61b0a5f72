#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <span>

#include "troupe/actors/groups/reduction/reduce_op.hpp"

namespace at {
class Tensor;
}

namespace troupe::groups {

/// What the ranks of a group do together. The values travel; append, never reorder.
enum class operation_kind : std::uint8_t {
  barrier,
  broadcast,
  all_reduce,
  reduce,
  all_gather,
  all_gather_into_tensor,
  gather,
  scatter,
  reduce_scatter,
  reduce_scatter_tensor,
  all_to_all,
  all_to_all_single,
  send,
  recv,
  monitored_barrier,  ///< by messages of the group itself: no backend is asked for it
};

/// Those before monitored_barrier: a backend may be asked for them.
inline constexpr std::size_t operation_kinds = 14;

/// Its name in the interface for programs: "all_reduce".
const char* to_string(operation_kind kind) noexcept;
const char* to_string(reduce_op reduction) noexcept;

/// Does each rank contribute values that are combined?
constexpr bool reduces(operation_kind kind) noexcept {
  return kind == operation_kind::all_reduce || kind == operation_kind::reduce ||
         kind == operation_kind::reduce_scatter || kind == operation_kind::reduce_scatter_tensor;
}

/// Has it one rank to which, or from which, all values go?
constexpr bool has_root(operation_kind kind) noexcept {
  return kind == operation_kind::broadcast || kind == operation_kind::reduce ||
         kind == operation_kind::gather || kind == operation_kind::scatter;
}

/// The source of a recv that takes a message of any rank.
inline constexpr int any_source = -1;

/// One operation of one rank, ready to be carried out. The group has checked the arguments of this
/// rank: all tensors are dense, contiguous, on one device and of one dtype, require no gradient,
/// and those that are written overlap with no other, unless it says so here. Whether the ranks
/// agree is for the backend to check, before it writes anything.
///
/// | kind | inputs | outputs |
/// | --- | --- | --- |
/// | barrier | none | none |
/// | broadcast | none | the root's are sent, the others' are written: any number |
/// | all_reduce | none | in place: any number, each for itself |
/// | reduce | one | the root: one, which may be the input; others: none |
/// | all_gather | one | one for each rank, in its rank's size |
/// | all_gather_into_tensor | any number | for each input one of `size` times its elements |
/// | gather | one | the root: one for each rank; others: none |
/// | scatter | the root: one for each rank; others: none | one |
/// | reduce_scatter | one for each rank | one |
/// | reduce_scatter_tensor | any number | for each input one of 1 / `size` of its elements |
/// | all_to_all | one for each rank | one for each rank |
/// | all_to_all_single | one | one |
/// | send | one | none |
/// | recv | none | one |
///
/// The input of an all_gather_into_tensor may be this rank's part of the output, and the output of
/// a reduce_scatter_tensor this rank's part of the input.
struct operation {
  operation_kind kind = operation_kind::barrier;
  reduce_op reduction = reduce_op::sum;
  double factor = 1;  ///< premul_sum: this rank's values are multiplied by it first
  int root = 0;       ///< a rank of the group, where the kind has one
  int peer = 0;       ///< of a send and a recv; any_source before, the sender's rank after a recv
  int tag = 0;        ///< of a send and a recv
  /// Of this operation among the collectives of its group, from 1 on; all ranks count alike.
  /// Monitored barriers count by themselves. Sends and receives have none: 0.
  std::uint64_t sequence = 0;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DeviceType device = c10::DeviceType::CPU;
  std::span<const at::Tensor> inputs{};
  std::span<const at::Tensor> outputs{};
  /// all_to_all_single: the elements for, and from, each rank, which lie one after the other. As
  /// many as there are ranks.
  std::span<const std::int64_t> input_splits{};
  std::span<const std::int64_t> output_splits{};
};

/// That of its tensors: it has one.
c10::Device device_of(const operation& what);

}  // namespace troupe::groups
