#pragma once

#include <functional>

namespace at {
class Tensor;
}

namespace troupe::autograd {

/// What a backward pass does with the graph.
struct backward_options {
  /// Keeps what the nodes have saved, so that another pass over the graph may follow.
  bool keep_graph = false;
  /// Records the pass itself, for derivatives of higher order. These need what the nodes have
  /// saved, so it is usually set together with keep_graph.
  bool create_graph = false;
};

/// Takes the gradient of a leaf: once per leaf and pass, never undefined. `gradient` is moved in:
/// it is the only reference unless somebody else holds one, so that it may be kept as it is. Called
/// on the thread that runs the pass, with the gradient's stream current and create_graph as grad
/// mode. An exception ends the pass.
using gradient_sink = std::function<void(const at::Tensor& leaf, at::Tensor gradient)>;

}  // namespace troupe::autograd
