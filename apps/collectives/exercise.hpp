#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <troupe/collectives.hpp>
#include <vector>

#include "troupe/apps/collectives/options.hpp"

namespace collectives {

/// One operation of one size on this rank, with its tensors. Rank 0 is the root of those that have
/// one.
class exercise {
public:
  /// `size`: bytes of the larger of input and output, rounded down to whole elements that all ranks
  /// can share out, but at least one for each.
  exercise(const troupe::process_group& group, const options& asked, std::uint64_t size);

  std::uint64_t size() const;
  /// Elements that a rank gives to another.
  std::int64_t count() const { return count_; }

  /// Writes all that this rank gives: values that differ by rank and place.
  void write();

  /// Overwrites what an operation out of place has written before.
  void forget_output();

  /// The operation, until this rank is done.
  void run();

  /// How many elements of the result on this rank are not what they should be. After `write` and
  /// `run`.
  std::int64_t wrong() const;

private:
  /// What a rank gives, in parts as large as `count`.
  at::Tensor values_of(int rank, std::int64_t parts) const;
  at::Tensor combined(std::int64_t parts) const;
  at::Tensor expected() const;
  bool is_root() const { return group_.rank() == 0; }
  std::vector<at::Tensor> parts_of(const at::Tensor& all) const;

  const troupe::process_group group_;
  const options asked_;
  std::int64_t count_ = 0;
  at::Tensor given_;           // what `write` writes
  at::Tensor input_, output_;  // the same where the operation works in place
};

}  // namespace collectives
