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
/// comes to. Ready when all gradients are there. Throws invalid_argument.
task<void> run_pass(node here, std::shared_ptr<participant> part, std::vector<at::Tensor> roots,
                    pass_options how);

/// The actor of a participant of this node.
pass_actor spawn_pass_actor(node_core& node, std::shared_ptr<participant> part);

// What nodes of a context ask of each other.

future<pass_report> ask_for_marks(node_core& here, std::uint32_t rank, mark_sends what);
future<pass_report> send_gradients(node_core& here, peer& to, gradients_arrive what);
void tell_forget(node_core& here, peer& whom, std::uint64_t context, std::uint64_t pass) noexcept;
void tell_end(node_core& here, peer& whom, std::uint64_t context, const std::string& why) noexcept;

}  // namespace detail

}  // namespace troupe::autograd
