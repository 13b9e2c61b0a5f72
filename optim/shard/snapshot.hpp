#pragma once

#include "troupe/actors/node/node.hpp"

namespace troupe {

/// A parameter as it is now, for one forward pass: later steps do not change it. It has the
/// parameter's shape, dtype and device, and its gradients go to the parameter. It costs a copy only
/// if the parameter is stepped while the snapshot, or a graph that was made with it, exists: the
/// step then copies the parameter's storage. (A storage that cannot be shared in this way is copied
/// at once.)
///
/// Thread-safe, also while distributed optimizers step the parameter. A step that makes a copy
/// leaves the old memory to the snapshot: so other threads that read the parameter during steps
/// must use snapshots as well, or may read freed memory. Nobody else may write the parameter in
/// place meanwhile. Do not write the snapshot in place: that would write the parameter. Throws
/// invalid_argument for an undefined tensor.
at::Tensor snapshot(const at::Tensor& parameter);

/// The same, on the parameter's owner. Throws invalid_argument on other nodes.
at::Tensor snapshot(const rref<at::Tensor>& parameter);

}  // namespace troupe
