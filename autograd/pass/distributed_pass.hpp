#pragma once

#include "troupe/autograd/context/participant.hpp"

namespace troupe::autograd {

/// How a backward pass is run.
struct pass_options {
  bool retain_graph = false;  ///< further passes may follow over the same graph
  /// Gradients can be differentiated themselves; keeps the graph.
  bool create_graph = false;
  pass_mode mode = pass_mode::smart;
};

TROUPE_MESSAGE_EXTERN(pass_options, retain_graph, create_graph, mode)

namespace detail {

/// Starts at the `roots`, scalars of this node that require gradients, on all nodes that the graph
/// comes to. Returns when all gradients are there: what is to be done on this node runs on the
/// calling thread. Throws invalid_argument, and what goes wrong on any node.
void run_pass(const node& here, const std::shared_ptr<participant>& part,
              const std::vector<at::Tensor>& roots, const pass_options& how);

/// Throws deadlock_error in a hook of a pass of that context on this node: another pass would have
/// to wait for the one that the hook belongs to.
void refuse_pass_within_itself(const node& here, const std::shared_ptr<participant>& part);

/// What libtorch's own `backward` does, over nodes: starts with `gradient` of the one root, which
/// has its sizes (undefined: with one, and the root is a scalar), and adds the gradients of leaves
/// to their .grad, on all nodes. Mode smart. Not within a pass of the same context.
void run_plain_pass(const node& here, const std::shared_ptr<participant>& part,
                    const at::Tensor& root, const at::Tensor& gradient, const pass_options& how);

/// The same as run_pass, on the node's threads.
future<void> run_pass_aside(const node& here, const std::shared_ptr<participant>& part,
                            const std::vector<at::Tensor>& roots, const pass_options& how);

}  // namespace detail

}  // namespace troupe::autograd
