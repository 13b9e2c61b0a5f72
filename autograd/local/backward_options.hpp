#pragma once

#include <functional>

namespace at {
class Tensor;
}

namespace troupe::autograd {

/// How a backward pass treats the graph.
struct backward_options {
  /// Keeps what the nodes have saved, so that the graph can be gone through again.
  bool keep_graph = false;
  /// Records the pass itself, for derivatives of higher order. They need what the nodes have saved,
  /// so it usually comes with keep_graph.
  bool create_graph = false;
};

/// Takes the gradient of a leaf: once per leaf and pass, never undefined. `gradient` is passed on
/// with no other reference to it where nobody else holds one, so that it may be kept as it is.
/// Called on the thread that runs the pass, with the stream of the gradient as the current one and
/// create_graph as grad mode. What it throws ends the pass.
using gradient_sink = std::function<void(const at::Tensor& leaf, at::Tensor gradient)>;

}  // namespace troupe::autograd
