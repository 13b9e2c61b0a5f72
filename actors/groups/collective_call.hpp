#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/actors/groups/process_group/prepared_call.hpp"
#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/groups/reduce_by.hpp"
#include "troupe/actors/groups/work/work.hpp"

namespace troupe::groups {

class group_core;

/// A collective that a program has asked for, with its arguments checked, or a part of one. Without
/// a group where this node is in none.
struct collective_call {
  collective_call(const process_group& in, operation_kind kind);

  /// Is there something to do?
  explicit operator bool() const noexcept { return group != nullptr; }

  // They throw invalid_argument.
  void root(int rank, const char* name);
  void reduction(reduce_by op);
  void count(const std::vector<at::Tensor>& list, const char* name);
  /// One has `size` times the elements of the other.
  void times(const at::Tensor& large, const char* large_name, const at::Tensor& small,
             const char* small_name);

  bool is_root();

  /// Carries it out, or starts it.
  void run();
  work start();

  group_core* group;
  prepared_call call;
};

// The collectives of collectives.hpp with their arguments. std::nullopt where this node is in no
// group.
std::optional<collective_call> broadcast_call(const process_group& group, const at::Tensor& tensor,
                                              int src);
std::optional<collective_call> all_reduce_call(const process_group& group,
                                               const at::Tensor* tensors, std::size_t count,
                                               reduce_by op);
std::optional<collective_call> reduce_call(const process_group& group, const at::Tensor& tensor,
                                           int dst, reduce_by op);
std::optional<collective_call> all_gather_call(const process_group& group,
                                               const std::vector<at::Tensor>& list,
                                               const at::Tensor& tensor);
std::optional<collective_call> all_gather_into_call(const process_group& group,
                                                    const at::Tensor* outputs,
                                                    const at::Tensor* inputs, std::size_t count);
std::optional<collective_call> gather_call(const process_group& group, const at::Tensor& tensor,
                                           const std::vector<at::Tensor>& list, int dst);
std::optional<collective_call> scatter_call(const process_group& group, const at::Tensor& tensor,
                                            const std::vector<at::Tensor>& list, int src);
std::optional<collective_call> reduce_scatter_call(const process_group& group,
                                                   const at::Tensor& output,
                                                   const std::vector<at::Tensor>& list,
                                                   reduce_by op);
std::optional<collective_call> reduce_scatter_tensor_call(const process_group& group,
                                                          const at::Tensor* outputs,
                                                          const at::Tensor* inputs,
                                                          std::size_t count, reduce_by op);
std::optional<collective_call> all_to_all_call(const process_group& group,
                                               const std::vector<at::Tensor>& outputs,
                                               const std::vector<at::Tensor>& inputs);
std::optional<collective_call> all_to_all_single_call(const process_group& group,
                                                      const at::Tensor& output,
                                                      const at::Tensor& input,
                                                      const std::vector<std::int64_t>& output_rows,
                                                      const std::vector<std::int64_t>& input_rows);
std::optional<collective_call> barrier_call(const process_group& group);

}  // namespace troupe::groups
