#pragma once

#include "troupe/actors/node/node.hpp"

namespace troupe {

/// A parameter as it is now, for one forward pass: what others step later does not change it. Of
/// the parameter's shape and dtype, on its device; its gradients go to the parameter. Costs a copy
/// only if the parameter is stepped while the snapshot, or a graph that was made with it, lives:
/// then the step makes one of the parameter's storage. (A storage that libtorch cannot share in
/// this way is copied at once.)
///
/// Thread-safe, also beside the steps of distributed optimizers. A step that makes a copy leaves
/// the old memory to the snapshot: whoever else reads the parameter beside steps must read it
/// through snapshots as well, or may read memory that has gone. Nobody else may write it in place
/// meanwhile, nor the snapshot, which would write the parameter. Throws invalid_argument for an
/// undefined tensor.
at::Tensor snapshot(const at::Tensor& parameter);

/// The same on the parameter's owner. Throws invalid_argument elsewhere.
at::Tensor snapshot(const rref<at::Tensor>& parameter);

}  // namespace troupe
