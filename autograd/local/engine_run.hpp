#pragma once

#include <functional>
#include <vector>

#include "troupe/autograd/local/backward_error.hpp"
#include "troupe/autograd/local/backward_options.hpp"
#include "troupe/autograd/local/backward_plan.hpp"

namespace troupe::autograd {

/// Takes the gradients that arrive at a node where a pass ends; undefined where there is none.
using stop_sink = std::function<void(const node_ptr& stop, std::vector<at::Tensor> gradients)>;

/// Runs a whole backward pass in libtorch's engine, when every gradient is there and nothing waits
/// for another node. Takes the same arguments as executor, and calls the sink as that does;
/// `gradients` has one list for each entry of the plan, like executor::arrive.
///
/// `stops` are nodes from which no edge leads on (messages that were received, say). Their
/// gradients have been through the hooks of their tensors and go to `stop`; the nodes themselves
/// and their own hooks are not run.
///
/// Works here and not in executor: Engine::queue_callback (the callbacks run before the sinks are
/// called), the engine's threads for GPUs, what nodes see of the pass (get_current_node() and the
/// like), and calls by a node or hook in a pass of the engine.
/// Different from executor: the sinks are called when the engine is done, and so are the hooks of
/// AccumulateGrad nodes themselves (not those of leaves); nothing is handed over if the pass fails.
/// Engine::is_checkpoint_valid() is false, as in torch::autograd::grad(), so checkpoints that call
/// backward() refuse.
///
/// Throws invalid_argument as executor and executor::arrive do, for a stop that is not in the plan
/// or does not end it, and for an end of the graph that is neither a leaf nor a stop (the engine
/// would not run it); a backward_error without an operation for what is thrown in the pass.
void run_in_engine(const backward_plan& plan, std::vector<std::vector<at::Tensor>> gradients,
                   const backward_options& options, const gradient_sink& sink,
                   const std::vector<node_ptr>& stops = {}, const stop_sink& stop = {});

}  // namespace troupe::autograd
