#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/groups/process_group/process_group.hpp"
#include "troupe/actors/groups/reduce_by.hpp"
#include "troupe/actors/groups/work/work.hpp"

namespace at {
class Tensor;
}

namespace troupe {

/// Collects collectives of one group, which are then carried out as one work (PyTorch's
/// `_coalescing_manager`). Those that follow one another become one operation where they can: an
/// all_reduce, a broadcast of one source, an all_gather_into_tensor and a reduce_scatter_tensor
/// take several tensors of one dtype, of any sizes; premul_sum stays alone. All ranks add the same
/// collectives in the same order, and run them at the same place among the others of the group.
///
/// Functions check their arguments, and throw invalid_argument, as those of collectives.hpp do;
/// what was added before stays. Nothing is read, written or sent before `run` or `start`, which
/// leave it empty, ready to be used again. What was added and never run is dropped. On a node that
/// is not in the group nothing happens. For one thread at a time.
class coalescing_manager {
public:
  explicit coalescing_manager(process_group group);
  ~coalescing_manager();
  coalescing_manager(coalescing_manager&&) noexcept;
  coalescing_manager& operator=(coalescing_manager&&) noexcept;

  void broadcast(const at::Tensor& tensor, int src);
  void all_reduce(const at::Tensor& tensor, reduce_by op = {});
  void reduce(const at::Tensor& tensor, int dst, reduce_by op = {});
  void all_gather(const std::vector<at::Tensor>& tensor_list, const at::Tensor& tensor);
  void all_gather_into_tensor(const at::Tensor& output_tensor, const at::Tensor& input_tensor);
  void gather(const at::Tensor& tensor, const std::vector<at::Tensor>& gather_list, int dst);
  void scatter(const at::Tensor& tensor, const std::vector<at::Tensor>& scatter_list, int src);
  void reduce_scatter(const at::Tensor& output, const std::vector<at::Tensor>& input_list,
                      reduce_by op = {});
  void reduce_scatter_tensor(const at::Tensor& output, const at::Tensor& input, reduce_by op = {});
  void all_to_all(const std::vector<at::Tensor>& output_tensor_list,
                  const std::vector<at::Tensor>& input_tensor_list);
  void all_to_all_single(const at::Tensor& output, const at::Tensor& input,
                         const std::vector<std::int64_t>& output_split_sizes = {},
                         const std::vector<std::int64_t>& input_split_sizes = {});

  /// The operations that it has come to.
  std::size_t size() const noexcept;

  /// Carries all of it out, in the order in which it was added. Throws the first error, which names
  /// its operation; what comes after that is not carried out. Throws invalid_argument, before
  /// anything is sent, if tensors of one operation overlap.
  void run();

  /// The same later, as one work. It has the tensors that were written in their order, and the name
  /// and number of the last operation; its duration counts from now on. Not valid if there is
  /// nothing to do.
  work start();

private:
  struct content;

  std::unique_ptr<content> content_;
};

}  // namespace troupe
