#pragma once

namespace troupe::autograd::detail {

/// libtorch's `Tensor::backward` first lets default_scopes take a pass. Set before main, in
/// programs that link this.
extern const bool plain_backward_goes_over_nodes;

}  // namespace troupe::autograd::detail
