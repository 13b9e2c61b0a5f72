#pragma once

#include "autograd/participant.hpp"

namespace troupe::autograd {

/// How a backward pass is run.
struct pass_options {
  bool retain_graph = false;  ///< further passes may follow over the same graph
  /// Gradients can be differentiated themselves; keeps the graph.
  bool create_graph = false;
  pass_mode mode = pass_mode::smart;
};

TROUPE_MESSAGE(pass_options, retain_graph, create_graph, mode)

namespace detail {

/// Starts at the `roots`, scalars of this node that require gradients, on all nodes that the graph
/// comes to. Returns when all gradients are there: what is to be done on this node runs on the
/// calling thread. Throws invalid_argument, and what goes wrong on any node.
void run_pass(const node& here, const std::shared_ptr<participant>& part,
              const std::vector<at::Tensor>& roots, const pass_options& how);

/// The same, on the node's threads.
task<void> run_pass_aside(node here, std::shared_ptr<participant> part,
                          std::vector<at::Tensor> roots, pass_options how);

/// The actor of a participant of this node.
pass_actor spawn_pass_actor(node_core& node, std::shared_ptr<participant> part);

// What nodes of a context ask of each other. The first three begin a step of a pass on another
// node, whose starter hears of its end, or of why it cannot be done.

next_step ask_for_marks(node_core& here, std::uint32_t rank, mark_sends what);
next_step ask_to_resume(node_core& here, std::uint32_t rank, resume what);
next_step send_gradients(node_core& here, peer& to, gradients_arrive what);
void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept;
void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why) noexcept;

}  // namespace detail

}  // namespace troupe::autograd
