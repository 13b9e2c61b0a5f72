#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace torch::autograd {
struct Node;
}

namespace troupe::autograd {

/// Names a message that carried tensors which require gradients, at either end of it.
struct message_key {
  std::uint32_t worker = 0;   ///< the rank of the other end
  std::uint64_t message = 0;  ///< the sender's number for it, the same at both ends

  auto operator<=>(const message_key&) const = default;
};

/// What one node has recorded of a context: the functions that stand for messages in its graph, and
/// the workers it has exchanged messages with. A copy, which later records do not change. It keeps
/// the graph alive that its functions lead to. Whoever looks into a function includes
/// <torch/csrc/autograd/function.h>.
struct recorded_graph {
  using functions = std::map<message_key, std::shared_ptr<const torch::autograd::Node>>;

  /// Messages that this node has sent. The next edges of a function are those of the tensors.
  functions sends;
  /// Messages that have arrived: the `grad_fn` of their tensors. They have no next edges, since the
  /// graph goes on at the sender.
  functions receives;
  /// The ranks of the workers that this node has called or answered in the context, and of those
  /// that have called it, whether or not a tensor required a gradient; not of those that they have
  /// called in their turn. Ascending; its own rank, if it has called itself.
  std::vector<std::uint32_t> workers;
};

namespace detail {

class participant;

/// A copy of what this participant has recorded so far.
recorded_graph recorded_by(const participant& part);

}  // namespace detail

}  // namespace troupe::autograd
