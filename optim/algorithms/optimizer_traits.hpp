#pragma once

#include <torch/optim/optimizer.h>

namespace troupe {

/// What a distributed optimizer has to know of an optimizer class that is derived from libtorch's.
/// Specialise it for a class of your own; `stepwise_optimizer` makes that shorter, and
/// docs/programming.md has a complete program. Members:
///
///     using options = ...;                           // derived from libtorch's OptimizerOptions
///     using state = ...;                             // of one parameter: OptimizerParamState
///     static constexpr bool needs_closure = false;   // true: evaluates the loss itself
///     static options some_options();                 // any values, to be read into
///
/// Both types write and read all of their members in `serialize`, as libtorch's do, and have
/// `clone`, `get_lr` and `set_lr`; a state has a default constructor, and its copies share its
/// tensors. The optimizer's constructor takes
/// `(std::vector<torch::optim::OptimizerParamGroup>, options)`. The optimizer finds the state of a
/// parameter in `state()` by the parameter's TensorImpl, keeps nothing else from one step to the
/// next, and leaves parameters without a `.grad` as they are.
///
/// An optimizer with `needs_closure` gets all of its parameters on one node. It calls the closure
/// before it writes any parameter in a step, and may then write all of them.
template <class Optimizer>
struct optimizer_traits;

}  // namespace troupe
