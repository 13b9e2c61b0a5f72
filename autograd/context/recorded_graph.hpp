#pragma once

#include <torch/csrc/autograd/function.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe::autograd {

/// Names a message that has carried tensors which require gradients, at either end of it.
struct message_key {
  std::uint32_t worker = 0;   ///< the rank of the other end
  std::uint64_t message = 0;  ///< the sender's number for it, the same at both ends

  auto operator<=>(const message_key&) const = default;
};

/// What one node has recorded of a context: the functions that stand for messages in its graph, and
/// whom it has talked to. A copy, for looking at: what is recorded later is not in it. It keeps the
/// graph alive that it leads to.
struct recorded_graph {
  using functions = std::map<message_key, std::shared_ptr<const torch::autograd::Node>>;

  /// Of messages that this node has sent. The next edges are those of the tensors.
  functions sends;
  /// Of messages that have come: the `grad_fn` of their tensors. No edge leads on, since the graph
  /// does so at the sender.
  functions receives;
  /// The ranks of those whom this node has asked or answered in the context, or who have it,
  /// whether or not a tensor required a gradient. Not those whom they have asked in their turn. In
  /// ascending order; itself, if it has called itself.
  std::vector<std::uint32_t> workers;
};

namespace detail {

class participant;

recorded_graph recorded_by(const participant& part);

}  // namespace detail

}  // namespace troupe::autograd
