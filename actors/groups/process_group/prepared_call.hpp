#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"

namespace troupe::groups {

/// What a call does beside its operation, where its tensors depend on an operation before it.
class call_steps {
public:
  virtual ~call_steps() = default;

  /// The turn of the call has come. Throws if it cannot be carried out, on all ranks alike.
  virtual void check() const = 0;

  /// It begins. May replace outputs.
  virtual void begin(std::span<at::Tensor> outputs) = 0;

  /// The outputs are written. Returns what the call as a whole has written.
  virtual at::Tensor end(std::span<const at::Tensor> outputs) = 0;
};

/// An operation with its tensors as a backend takes them: checked, and, when it begins, dense. What
/// a backend cannot use is replaced by memory that is copied back at the end. Can be moved. One
/// thread at a time.
class prepared_call {
public:
  explicit prepared_call(operation_kind kind) { what_.kind = kind; }

  /// Does the output's present value count?
  enum class use : std::uint8_t { written, updated };

  /// The tensors, in the order of the descriptor. Throw invalid_argument, in the name of the
  /// operation: for tensors that are not defined, sparse or quantized, for an output that is a leaf
  /// which requires a gradient, a view of one, or that overlaps itself, and for a second dtype or
  /// device.
  void input(const at::Tensor& tensor);
  void output(const at::Tensor& tensor, use how = use::written);

  /// Throws invalid_argument if outputs overlap with one another, or with inputs other than
  /// `operation` allows for rank `rank`.
  void check_overlaps(int rank) const;

  /// The tensors of another call of the same kind, behind its own.
  void append(prepared_call&& other);

  /// Throws what its steps throw.
  void check_steps() const {
    if (steps_) [[unlikely]]
      steps_->check();
  }

  void set_steps(std::unique_ptr<call_steps> steps) { steps_ = std::move(steps); }

  operation& what() noexcept { return what_; }
  const operation& what() const noexcept { return what_; }
  std::vector<std::int64_t> input_splits{}, output_splits{};

  /// The descriptor, whose tensors are this object's: it stays where it is from now on.
  operation& bind() noexcept;

  /// It begins: tensors that are not dense are replaced by copies of what they hold now.
  void make_dense();

  /// Tensors of a device are replaced by copies in host memory, after what the current stream has
  /// in hand. Pre: make_dense.
  void move_to_host();

  /// Where its tensors lie. Pre: there are some.
  c10::Device device() const;
  bool has_tensors() const noexcept { return !inputs_.empty() || !outputs_.empty(); }

  /// It has been carried out: the program's tensors get their values, and newer versions.
  void finish();

  /// The program's tensors that were written, as it has given them.
  const c10::SmallVector<at::Tensor, 2>& results() const noexcept { return results_; }

private:
  void check(const at::Tensor& tensor);
  bool are_at_odds(std::size_t output, std::size_t other, bool is_input, int rank) const;
  bool may_share(const at::Tensor& output, const at::Tensor& input, int rank) const;

  operation what_;
  bool strided_ = false;  // not all are dense yet
  bool joined_ = false;   // of several operations
  c10::SmallVector<at::Tensor, 2> inputs_, outputs_;
  c10::SmallVector<at::Tensor, 2> results_;  // those of `outputs_` that are not these are copied
  c10::SmallVector<use, 2> uses_;            // of the outputs
  std::unique_ptr<call_steps> steps_;        // of most there are none
};

}  // namespace troupe::groups
