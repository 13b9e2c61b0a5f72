#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/input_buffer.h>

#include <optional>
#include <vector>

#include "troupe/autograd/local/backward_options.hpp"
#include "troupe/autograd/local/backward_plan.hpp"

// What libtorch's engine does at one node (Engine::evaluate_function and call_function in
// engine.cpp of torch 2.11), in functions that need no GraphTask. The caller sets grad mode, stream
// and thread state.
namespace troupe::autograd::detail {

using torch::autograd::AccumulateGrad;
using torch::autograd::InputBuffer;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// Does the graph end at this node, which is none of a leaf? It hands its gradients to another node
/// of the job.
inline bool is_end(const Node& node) {
  return node.num_outputs() == 0 && !dynamic_cast<const AccumulateGrad*>(&node);
}

/// The stream that takes work on `t` now; none for tensors on the CPU.
std::optional<c10::Stream> current_stream(const at::Tensor& t);

/// Has `on` wait for the gradients; for one on another device, the current stream there.
void wait_for(const InputBuffer& gradients, const std::optional<c10::Stream>& on);

/// Runs the hooks of the tensors that the node has made. Returns the gradients as they leave them.
variable_list call_tensor_hooks(Node& node, variable_list gradients);

/// Calls the node and its own hooks with gradients that have been through call_tensor_hooks.
/// Returns one gradient for each edge, checked against the metadata of the edge's node.
variable_list call(Node& node, variable_list gradients, const backward_options& options);

/// Hands the gradient of a leaf, which has been through call_tensor_hooks, to the sink, with the
/// node's own hooks around it. Nothing is handed over if it is undefined.
void hand_over(AccumulateGrad& leaf, variable_list gradients, const gradient_sink& sink);

/// Throws invalid_argument for a leaf with a hook that needs .grad.
void refuse_hooks_on_grad(Node& leaf);

/// Throws invalid_argument unless `gradients` has one gradient for each input of the entry, which
/// fits it; converts those that fit after a conversion (of dtype, of a broadcast shape), as the
/// engine does with those of its roots.
void fit(const entry& at, variable_list& gradients);

}  // namespace troupe::autograd::detail
