#pragma once

#include <torch/optim/optimizer.h>

#include <optional>

#include "troupe/actors/node/node.hpp"

namespace troupe {

/// How the steps of a distributed optimizer meet one another, and the backward passes of others.
/// See docs/programming.md.
enum class step_mode : std::uint8_t {
  /// One step at a time changes a parameter, whichever optimizer and trainer it is of. A backward
  /// pass that began its forward pass before somebody's step uses the weights that are there now,
  /// and nobody says so: its gradients are stale, and of two versions of the weights.
  in_turn,
  /// The same, but such a backward pass uses the weights of its forward pass if that read them
  /// through `snapshot`; otherwise it throws libtorch's "modified by an inplace operation".
  consistent,
  /// Steps run side by side over the same memory, without locks, as in Hogwild! (Recht et al.,
  /// 2011): each element takes what the last to write it has made. The first step of a parameter
  /// waits for its turn.
  hogwild,
};

/// Settings of a distributed optimizer that are not of libtorch's.
struct optimizer_settings {
  step_mode mode = step_mode::in_turn;
  /// A parameter for which the context has no gradient is an error, and nothing of its shard is
  /// stepped. Otherwise it stays as it is, and only that no parameter has one is an error.
  bool needs_all_gradients = false;
};
TROUPE_MESSAGE_EXTERN(optimizer_settings, mode, needs_all_gradients)

/// Parameters with options of their own; without them, with those of the optimizer.
template <class Options>
struct parameter_group {
  std::vector<rref<at::Tensor>> parameters;
  std::optional<Options> options{};
};

/// What an optimizer derived from libtorch's is made with. To be specialised for your own, which
/// `stepwise_optimizer` makes shorter; docs/programming.md has a program that does. Members:
///
///     using options = ...;                           // derived from libtorch's OptimizerOptions
///     using state = ...;                             // of one parameter: OptimizerParamState
///     static constexpr bool needs_closure = false;   // true: evaluates the loss itself
///     static options some_options();                 // any, to be read into
///
/// Both types write and read all that they are in `serialize`, as libtorch's do, and have `clone`,
/// `get_lr` and `set_lr`; a state has a default constructor, and copies of it share its tensors.
/// The optimizer's constructor takes `(std::vector<torch::optim::OptimizerParamGroup>, options)`,
/// it finds a parameter's state in `state()` by the parameter's TensorImpl, and keeps nothing else
/// from one step to the next. One with `needs_closure` gets all of its parameters on one node.
template <class Optimizer>
struct optimizer_traits;

}  // namespace troupe
